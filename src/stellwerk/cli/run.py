"""`stellwerk run`: an agent system or a graph, run in the terminal."""

import asyncio
import sys
import sysconfig
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stellwerk
from stellwerk import threads
from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import memory_saver
from stellwerk.agents.graphs import operator_file, registry, serve_targets
from stellwerk.agents.mcp.servers import McpServers
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.runtime.tracing import trace_in_place, tracing
from stellwerk.agents.store.index import memory_store
from stellwerk.agents.tools.registry import discover
from stellwerk.cli.questions import Questions
from stellwerk.cli.render import screen, session_view
from stellwerk.cli.render.text import cut, one_line, visible
from stellwerk.cli.shared import PIPE_CLOSED
from stellwerk.cli.terminal import AWAITING, BY_SIGNAL, COMPLETED, FAILED, MISUSED, TerminalRun
from stellwerk.demo import demo_yaml
from stellwerk.envelope.frames import Stored, ndjson
from stellwerk.envelope.model import AskUser, Envelope, RunEnd, RunStart, StopRequest, encode
from stellwerk.envelope.payloads import RunEnded, StopAsked
from stellwerk.errors import InvalidField, SettingsError, StellwerkError
from stellwerk.ids import SortableIds, SystemClock, digest_id
from stellwerk.spec.load import LoadedSystem, load_system
from stellwerk.spec.model import ChatMessage
from stellwerk.spec.operator import Operator
from stellwerk.stream.endings import interrupted_ending

_LONGEST_ERROR = 500


def find(target: str) -> tuple[LoadedSystem, Mapping[str, str]]:
    """The agent system, and the graph that it was generated for, if any."""
    if target == serve_targets.DEMO and not Path(target).exists():
        return load_system(demo_yaml(), source="demo.yaml"), {}
    place, _, chosen = target.rpartition(":")
    if place.endswith((".yaml", ".yml")):
        raise SettingsError(f"{place} is an agent system and runs as a whole; leave out :{chosen}")
    if not place.endswith(".json"):
        place, chosen = target, ""
    found = serve_targets.systems_of([place], ignore_auth=True)  # no one else can reach it
    if chosen and chosen not in found:
        raise SettingsError(f"{place} has no graph {chosen!r}; it has: {', '.join(found)}")
    if not chosen and len(found) > 1:
        choices = ", ".join(f"{place}:{one}" for one in found)
        raise SettingsError(f"{place} has several graphs; choose one: {choices}")
    name = chosen or next(iter(found))
    place = found[name]
    loaded = load_system(serve_targets.text_of(name, place), source=place)
    generated_for = serve_targets.ServedSystems(serve_targets.graphs_among({name: place}))
    generated_for.store_index = found.store_index
    return loaded, generated_for


@asynccontextmanager
async def opened(target: str, operator: Operator, warn: Callable[[str], None]) -> AsyncIterator[RunnableAgent]:
    """Build the agent; everything that was started for it ends with the block."""
    trace_in_place()
    loaded, generated_for = find(target)
    async with AsyncExitStack() as exit_stack:
        await exit_stack.enter_async_context(tracing(operator_file.redactors_of(operator)))
        mcp = McpServers(operator.mcp_servers)
        exit_stack.push_async_callback(mcp.close)
        own = generated_for or operator.graphs
        resources = Resources(
            tools=discover(operator.tools),
            graphs=registry.discover(own, registry.GraphSettings.of(operator).only(own)),
            mcp=mcp,
            providers=operator.providers,
            saver=memory_saver(),
            store=await memory_store(serve_targets.store_index_of(operator, generated_for)),
            exit_stack=exit_stack,
        )
        factory = AgentFactory(resources)
        resolved = await factory.admitted(loaded)
        agent = await factory.build(resolved.root, loaded.system.system)
        for problem in loaded.located(resolved.warnings):
            warn(problem.sentence(loaded.source))
        yield agent


class Conversation:
    """A conversation with one agent, run by run: drives it, asks its questions, stops it."""

    def __init__(
        self,
        agent: RunnableAgent,
        session_id: str,
        show: Callable[[int, Envelope], None],
        questions: Questions,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        """``given`` has input, config and context of its messages."""
        self._agent = agent
        self._given = given or {}
        self._session_id = session_id
        self._show = show
        self._questions = questions
        self._history: list[Envelope] = []
        self._reading: asyncio.Task[None] | None = None

    async def turn(self, text: str) -> RunEnded:
        """Send a message, then answers, until the run ends or a question stays open.

        An error that the agent did not foresee is raised after the end of its run.
        """
        messages = [ChatMessage(content=text)] if text else []
        ended = await self._run(messages=messages, **self._given)
        while ended.status == "awaiting_user":
            run_id = self._history[-1].run_id
            asks = [e for e in self._history if isinstance(e, AskUser) and e.run_id == run_id]
            answers = await self._questions.answers(asks)
            if answers is None:
                break
            ended = await self._run(answers=answers)
        return ended

    def stop(self) -> bool:
        """Stop the current run; False if there is none."""
        if self._reading is None or self._reading.done():
            return False
        self._reading.cancel()
        return True

    async def _run(self, **request: Any) -> RunEnded:
        before = len(self._history)
        run = self._agent.envelopes(**request, session_id=self._session_id, history=list(self._history))
        self._reading = asyncio.create_task(self._read(run))
        await asyncio.wait([self._reading])
        if not self._reading.cancelled():
            self._reading.result()
        elif len(self._history) == before:
            return RunEnded(status="stopped")
        elif not isinstance(self._history[-1], RunEnd):  # else it had just ended by itself
            for envelope in stopping(self._history, SystemClock().now()):
                self._append(envelope)
        end = self._history[-1]
        assert isinstance(end, RunEnd)  # the last envelope of every run
        return end.payload

    async def _read(self, run: Any) -> None:
        async with aclosing(run):  # ends the run at once if nothing can be shown any more
            async for envelope in run:
                self._append(envelope)

    def _append(self, envelope: Envelope) -> None:
        self._history.append(envelope)
        self._show(len(self._history), envelope)


def stopping(history: Sequence[Envelope], now: float) -> list[Envelope]:
    """The last envelopes of a stopped run: the stop request, ends of open calls, the run end."""
    start = next(e for e in reversed(history) if isinstance(e, RunStart))
    run_id = start.call_id
    stop = StopAsked(by="user", reason="Ctrl-C")
    ids: dict[str, Any] = {"trace_id": start.trace_id, "run_id": run_id, "parent_id": run_id}
    request = StopRequest(ts=now, **ids, call_id=digest_id("stop", run_id), seq=1, payload=stop)
    trace = [e for e in history if e.trace_id == start.trace_id]
    return [request, *interrupted_ending([*trace, request], run_id=run_id, ts=now)]


@dataclass(frozen=True, slots=True)
class RunCommand:
    target: str
    words: Sequence[str]
    """The text; without any it is read from standard input, or typed in a conversation."""
    operator: Operator
    as_json: bool = False
    quiet: bool = False
    debug: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)
    """Input, config and context for a graph."""


def run_agent(options: RunCommand) -> int:
    """Run it and return the exit code; does not return if something of it was stopped."""
    runner = asyncio.Runner()
    runner.get_loop().set_task_factory(threads.exits_contained)
    code = runner.run(_AgentRun(options).main())
    if code >= BY_SIGNAL:
        threads.exit_now(code)
    runner.close()
    return code


class _AgentRun(TerminalRun):
    def __init__(self, options: RunCommand) -> None:
        on_terminal = sys.stdout.isatty() and sys.stderr.isatty() and not options.as_json
        super().__init__(screen.Screen(sys.stdout if on_terminal else sys.stderr))
        self._options = options
        self._id = SortableIds(SystemClock()).new()
        self._can_ask = on_terminal and sys.stdin.isatty()
        self._view = session_view.SessionView(self.screen, SystemClock().now, answer=on_terminal)
        self._shows_steps = not options.quiet and not options.as_json
        self._prints_answer = not options.as_json and (options.quiet or not on_terminal)
        self._conversation: Conversation | None = None

    async def main(self) -> int:
        work = await self.finished(self._run(), self._view.tick, debug=self._options.debug)
        return self._code(work, error_code=MISUSED)

    async def _run(self) -> int:
        text = self._text()
        self._note("starting")  # at once: building the agent may keep the loop busy
        warn = lambda line: self.screen.say(f"! {line}", "warn")  # noqa: E731
        async with opened(self._options.target, self._options.operator, warn) as agent:
            self._note("")
            questions = Questions(self.screen, self.keyboard, agent.name, has_user=self._can_ask)
            self._conversation = Conversation(agent, self._id, self._show, questions, self._options.given)
            if text is not None:
                return await self._turn(self._conversation, text)
            greeting = f"{agent.name} listens. Ctrl-C stops an answer, Ctrl-D ends the conversation."
            self.screen.say(greeting, "dim")
            return await self._converse(self._conversation)

    def _text(self) -> str | None:
        words = self._options.words
        if text := " ".join(words).strip():
            return text
        if "input" in self._options.given:
            return ""
        if self._can_ask and not words:
            return None
        if not words and not sys.stdin.isatty() and (piped := sys.stdin.read()).strip():
            return piped
        raise SettingsError('there is nothing to run it with; say something: stellwerk run … "text"')

    async def _converse(self, conversation: Conversation) -> int:
        while True:
            try:
                text = await self.keyboard.line("> ")
            except EOFError:
                return COMPLETED
            if text.strip() and await self._turn(conversation, text) == AWAITING:
                return AWAITING
            self.caught = None

    async def _turn(self, conversation: Conversation, text: str) -> int:
        turn = asyncio.create_task(conversation.turn(text))
        try:
            await asyncio.wait([turn])
        finally:
            turn.cancel()
        return self._code(turn, error_code=FAILED)

    def _code(self, work: "asyncio.Task[int] | asyncio.Task[RunEnded]", *, error_code: int) -> int:
        """The exit code of a task that is done; an error is printed in one line."""
        if work.cancelled():
            return self.stopped
        error = work.exception()
        if error is None:
            result = work.result()
            return result if isinstance(result, int) else self._code_of_run(result)
        if self.output.closed:
            return PIPE_CLOSED
        if self._options.debug:
            traceback.print_exception(error, file=sys.__stderr__)
        self.screen.say(f"stellwerk: {_in_one_line(error, debug=self._options.debug)}", "bad")
        if isinstance(error, InvalidField):
            return MISUSED
        return error_code if isinstance(error, StellwerkError) else FAILED

    def _code_of_run(self, ended: RunEnded) -> int:
        if ended.status == "failed":
            self.screen.say(f"stellwerk: {ended.reason or 'the run failed'}", "bad")
        codes = {"completed": COMPLETED, "failed": FAILED, "awaiting_user": AWAITING, "stopped": self.stopped}
        return codes[ended.status]

    def _show(self, position: int, envelope: Envelope) -> None:
        if self._shows_steps:
            self._view.feed(envelope)
        if self._options.as_json:
            self.output.write(ndjson(self._id, Stored(position, encode(envelope)), "live").decode())
        elif self._prints_answer and isinstance(envelope, RunEnd) and envelope.payload.result:
            line = envelope.payload.result.removesuffix("\n") + "\n"
            self.output.write(visible(line) if self.output.is_terminal else line)

    def _note(self, text: str) -> None:
        if self._shows_steps:
            self._view.note(text)

    def stop(self) -> None:
        if self._conversation is not None and self._conversation.stop():
            self._note("stopping; Ctrl-C again ends at once")
        else:
            self.work.cancel()


def _in_one_line(error: BaseException, *, debug: bool) -> str:
    """An error of ours as it is; any other with its place in the user's own code."""
    if isinstance(error, StellwerkError):
        return error.message
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    not_theirs = (*libraries, *stellwerk.__path__, "<")
    line = one_line(f"{type(error).__name__}: {error}".removesuffix(": "))
    line = cut(line, _LONGEST_ERROR).rstrip(".")
    stack = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in stack if not frame.filename.startswith(not_theirs)]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{line}{place}" if debug else f"{line}{place}; --debug shows the whole stack"
