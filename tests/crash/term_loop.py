"""SIGTERM while others work for a run, again and again, on one data folder that lives through it all.

``python -m tests.crash.term_loop --terms 50`` drives sessions that delegate to
sub-agents, side by side and in depth, work through workplans, and run graphs in
tools and nodes; asks the server to end in the middle of that, starts it again,
and goes on. It ends with 1 and the evidence if a run did not complete, told of
an error, or left anything out, or if the effects of the tools, which are
written down outside of the server, are not each there exactly once.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from stellwerk.envelope.model import Envelope, Error, RunEnd, RunStart, SubgraphResume, ToolEnd, ToolStart, decode
from stellwerk.testing.order import order_problems
from tests.crash import effects, process, served, snapshot
from tests.crash.waiting import eventually
from tests.crash.wire import NDJSON

SYSTEMS = Path(__file__).parent / "term_loop_systems"
PARTS = ("first", "second")
WISHES: Mapping[str, Sequence[str]] = {
    "crew single": ("",),
    "crew pair": ("left ", "right "),
    "crew below": ("",),
    "plan carry": ("north ", "south ", "last "),
    "deep carry": ("",),
    "nested_graph carry": ("", "node "),
}
"""By system and wish: for whom things are ordered, two for each."""
SESSIONS = 2
"""Of each wish."""
MOST_EVENTS = 40
"""At most so many events of one session pass before the server is asked to end."""
_ENDED = 120
_STATUS_OK = ("ok", "abandoned")

Say = Callable[[str], object]
Expected = Counter[effects.Effect]


@dataclass
class Talk:
    """One session, and what was sent to it."""

    session_id: str
    wish: str
    sent: list[str] = field(default_factory=list)
    log: list[Envelope] = field(default_factory=list)

    def expected(self) -> Expected:
        """What is ordered for all that was sent."""
        whole = [f"{part} {whom}{text}" for text in self.sent for whom in WISHES[self.wish] for part in PARTS]
        return Counter(("order", what) for what in whole)


@dataclass
class Outcome:
    talks: list[Talk] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    terms: int = 0
    paused: Counter[str] = field(default_factory=Counter)
    """By the kind of their call: how many calls were open when a server had ended."""
    slowest_end: float = 0.0
    effects: int = 0

    def runs(self) -> int:
        return sum(len(talk.sent) for talk in self.talks)

    def resumed(self) -> int:
        return sum(isinstance(e, SubgraphResume) for talk in self.talks for e in talk.log)

    def cut_off(self) -> int:
        """Calls that did not end in time, and were repeated."""
        ends = [e for talk in self.talks for e in talk.log if isinstance(e, ToolEnd)]
        return sum(end.payload.status == "abandoned" for end in ends)


class TermLoop:
    def __init__(self, folder: Path, *, seed: int, say: Say) -> None:
        self._systems = folder / "systems"
        shutil.copytree(SYSTEMS, self._systems, dirs_exist_ok=True)
        (self._systems / "operator.yaml").write_text("tools: [nested_graph.py:tools]\n")
        self._data, self._scratch, self._errors = folder / "data", folder / "copy", folder / "stderr.txt"
        self._random, self._say = random.Random(seed), say
        self._server: process.ServerProcess | None = None
        self.outcome = Outcome()

    async def run(self, terms: int) -> Outcome:
        """Ask the server to end that often, or until something is wrong; then let every run end."""
        try:
            for number in range(1, terms + 1):
                await self._one_life()
                self._look_at_the_file()
                self._tell(number)
                if self.outcome.problems:
                    return self.outcome
            await self._last_life()
        finally:
            if self._server is not None:
                self._server.kill()
        return self.outcome

    async def _one_life(self) -> None:
        self._server = await self._start()
        async with served.client(self._server) as client:
            await self._send_to_idle(client)
            await self._some_events(client)
        began = time.monotonic()
        self._server.stop()
        self.outcome.slowest_end = max(self.outcome.slowest_end, time.monotonic() - began)
        self.outcome.terms += 1
        if (code := self._server.process.poll()) != 0:
            self.outcome.problems.append(f"the server ended with {code}")

    async def _last_life(self) -> None:
        self._server = await self._start()
        async with served.client(self._server) as client:
            await eventually(lambda: self._none_is_at_work(client), within=_ENDED, what="a run does not end")
        self._server.stop()
        self._look_at_the_file()
        done = effects.read(self._systems / "effects")
        self.outcome.effects = done.total()
        self._note(effect_problems(done, self.outcome.talks))
        for talk in self.outcome.talks:
            self._note(run_problems(talk))
        said = self._errors.read_text("utf-8", "replace")
        self._note(
            f"the server's log has {word}" for word in ("Traceback", "GraphDrained", '"level": "error"') if word in said
        )

    async def _start(self) -> process.ServerProcess:
        systems = [str(self._systems / f"{name}.yaml") for name in ("crew", "plan", "deep")]
        serves, config = [*systems, f"{self._systems / 'nested_graph.py'}:graph"], self._systems / "operator.yaml"
        try:
            return process.start(self._data, errors=self._errors, serves=serves, config=config)
        except RuntimeError:
            await asyncio.sleep(0)  # raises CancelledError, if it did not start because of Ctrl-C
            raise

    async def _send_to_idle(self, client: httpx2.AsyncClient) -> None:
        if not self.outcome.talks:
            for wish in WISHES:
                for _ in range(SESSIONS):
                    made = await client.post("/sessions", json={"agent_system_id": wish.partition(" ")[0]})
                    self.outcome.talks.append(Talk(str(made.json()["id"]), wish))
        standings = await served.standings(client)
        for talk in self.outcome.talks:
            if standings[talk.session_id]["status"] != "running":
                text = f"{talk.wish.partition(' ')[2]} {self.outcome.runs() + 1}"
                answer = await client.post(f"/sessions/{talk.session_id}/messages", json={"text": text})
                if answer.status_code == 202:
                    talk.sent.append(text)
                else:
                    self._note([f"session {talk.session_id}: {text!r} was answered with {answer.text}"])

    async def _some_events(self, client: httpx2.AsyncClient) -> None:
        """Wait for a number of events of one session, or for the end of its run."""
        talk, left = self._random.choice(self.outcome.talks), self._random.randint(1, MOST_EVENTS)
        position = (await served.standings(client))[talk.session_id]["position"]
        path = f"/sessions/{talk.session_id}/stream?profile=debug&until=run_end&after={position}"
        async with asyncio.timeout(_ENDED), client.stream("GET", path, headers={"Accept": NDJSON}) as answer:
            async for line in answer.aiter_lines():
                left -= line.startswith("{")
                if left <= 0:
                    return

    async def _none_is_at_work(self, client: httpx2.AsyncClient) -> bool:
        return all(each["status"] != "running" for each in (await served.standings(client)).values())

    def _look_at_the_file(self) -> None:
        found = snapshot.read(self._data, self._scratch)
        if found.integrity != ["ok"]:
            self._note([f"integrity_check says {found.integrity[:5]}"])
        for talk in self.outcome.talks:
            positions = [position for position, _ in found.logs[talk.session_id]]
            if positions != list(range(1, len(positions) + 1)):
                self._note([f"session {talk.session_id}: positions are not 1 to n"])
            before, talk.log = talk.log, [decode(body) for _, body in found.logs[talk.session_id]]
            if talk.log[: len(before)] != before:
                self._note([f"session {talk.session_id}: its log was rewritten"])
            self._note(error_problems(talk))
            self.outcome.paused += Counter(start.payload.kind for start in open_tools(talk.log))

    def _note(self, problems: Iterable[str]) -> None:
        self.outcome.problems += [problem for problem in problems if problem not in self.outcome.problems]

    def _tell(self, number: int) -> None:
        outcome = self.outcome
        self._say(
            f"term {number:>3}: {outcome.runs()} runs, paused so far: {outcome.paused['agent']} sub-agents, "
            f"{outcome.paused['graph']} graphs, {outcome.paused['tool']} tools with graphs; "
            f"{len(outcome.problems)} problems\n"
        )


def open_tools(log: Sequence[Envelope]) -> list[ToolStart]:
    starts = {e.call_id: e for e in log if isinstance(e, ToolStart)}
    for end in log:
        if isinstance(end, ToolEnd):
            starts.pop(end.call_id, None)
    return list(starts.values())


def error_problems(talk: Talk) -> Iterator[str]:
    """A restart is no error, at any depth, and no run ends otherwise than it should."""
    for envelope in talk.log:
        match envelope:
            case Error():
                yield f"session {talk.session_id} tells of an error: {envelope.payload.message}"
            case ToolEnd() if envelope.payload.status not in _STATUS_OK:
                yield f"session {talk.session_id}: {envelope.payload.tool_name} ended as {envelope.payload.status}"
            case RunEnd() if envelope.payload.status != "completed":
                yield f"session {talk.session_id}: a run ended as {envelope.payload.status}: {envelope.payload.reason}"


def run_problems(talk: Talk) -> Iterator[str]:
    """In the end, every message has its run, and every run its end."""
    yield from (f"session {talk.session_id}: {problem}" for problem in order_problems(talk.log))
    yield from (f"session {talk.session_id}: {problem}" for problem in effects.repeated_calls(talk.log))
    started = [e.run_id for e in talk.log if isinstance(e, RunStart)]
    ended = [e.run_id for e in talk.log if isinstance(e, RunEnd)]
    if started != ended or len(started) != len(talk.sent):
        yield f"session {talk.session_id}: {len(talk.sent)} messages, runs started: {started}, ended: {ended}"


def effect_problems(done: "Counter[effects.Effect]", talks: Sequence[Talk]) -> Iterator[str]:
    """Everything that was asked for was done exactly once."""
    expected: Expected = sum((talk.expected() for talk in talks), Counter())
    for effect in sorted(expected.keys() | done.keys()):
        if done[effect] != expected[effect]:
            yield f"{effect} was done {done[effect]} times instead of {expected[effect]}"


def summary(outcome: Outcome, *, seed: int, folder: Path) -> str:
    lines = [
        f"{outcome.terms} SIGTERMs (seed {seed}): {len(outcome.talks)} sessions, {outcome.runs()} runs, "
        f"{outcome.resumed()} times one went on after a restart, {outcome.effects} effects of tools",
        f"open when a server had ended: {outcome.paused['agent']} sub-agents and tasks, {outcome.paused['graph']} "
        f"graphs, {outcome.paused['tool']} tools with a graph inside; {outcome.cut_off()} calls cut off and repeated; "
        f"slowest end {outcome.slowest_end:.1f} s",
        *outcome.problems[:50],
        f"{len(outcome.problems)} problems; the evidence is in {folder}"
        if outcome.problems
        else "every run completed, every effect happened once",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.term_loop", description=__doc__)
    parser.add_argument("--terms", type=int, default=50, help="how often to ask the server to end (default: 50)")
    parser.add_argument("--seed", type=int, help="repeat the choices of an earlier run; time still plays its part")
    parser.add_argument("--data", type=Path, help="an empty folder to work in (default: a temporary one)")
    chosen = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    folder = chosen.data or Path(tempfile.mkdtemp(prefix="stellwerk-terms-"))
    folder.mkdir(parents=True, exist_ok=True)
    say = sys.stdout.write if sys.stdout.isatty() else (lambda _: None)
    say(f"seed {seed}, data in {folder}\n")
    problems = True
    try:
        outcome = asyncio.run(TermLoop(folder, seed=seed, say=say).run(chosen.terms))
        sys.stdout.write(summary(outcome, seed=seed, folder=folder))
        problems = bool(outcome.problems)
    except KeyboardInterrupt:
        problems = False  # nothing to look at
        return 130
    finally:
        if chosen.data is None and not problems:
            shutil.rmtree(folder)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
