"""Recording: a real run of a graph, heard in three ways, as JSON lines.

``live`` is what our own source tells, ``parts`` is what ``astream`` yields, and
``events`` is what ``astream_events`` yields. The graph is run anew for each.
Time is pinned, and ids made by chance are given names in the order in which
they appear, so that recording again gives the same bytes.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import is_dataclass
from itertools import count
from typing import Any

import msgspec
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from stellwerk.agents.checkpoints.serde import StrictSerializer
from stellwerk.agents.runtime.budget import spending
from stellwerk.agents.runtime.conversation import Turn
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.runtime.tracing import trace_in_place
from stellwerk.envelope.payloads import Answered
from stellwerk.envelope.to_json import canonical, canonical_json
from stellwerk.errors import StellwerkError
from stellwerk.ids import digest_id
from stellwerk.stream.facts import CheckpointSaved, Fact, Interrupted, ModelToken
from stellwerk.stream.states import questions_of
from stellwerk.views.questions import resume_values
from tests.golden.lines import fact_line
from tests.golden.turns import Answer, Cut, Form, Say, Scenario

MODES: Any = ["messages", "updates", "custom", "tools", "tasks", "checkpoints"]
_CHANCE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![0-9a-zA-Z])[0-9a-f]{32}(?![0-9a-zA-Z])")
_TODAY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00")
_NOISE = ("lc_versions", "langgraph_path", "langgraph_triggers", "checkpoint_ns", "ls_integration", "ls_provider")


class PinnedClock:
    def __init__(self) -> None:
        self._ticks = count(1)

    def now(self) -> float:
        return round(1_700_000_000 + next(self._ticks) / 100, 2)

    def steady(self) -> float:
        return self.now()


class TellingSaver(InMemorySaver):
    """Tells of every checkpoint, as the saver of the server does; without a thread of its own, in one order always."""

    def __init__(self, clock: PinnedClock) -> None:
        super().__init__(serde=StrictSerializer())
        self._clock = clock
        self.ears: list[Callable[[Fact], None]] = []
        """Shared with the copies that are made of it."""

    async def aput(self, config: RunnableConfig, checkpoint: Checkpoint, *rest: Any) -> RunnableConfig:
        stored = await super().aput(config, checkpoint, *rest)
        space, digest = config["configurable"].get("checkpoint_ns", ""), digest_id(_digest(checkpoint))
        for tell in self.ears:
            tell(CheckpointSaved(self._clock.now(), checkpoint["id"], space, digest))
        return stored


def _digest(checkpoint: Checkpoint) -> str:
    """Of the state without the ids and times that are made by chance."""
    state = canonical_json(canonical(plain(checkpoint["channel_values"])).value).decode()
    return _TODAY.sub("", _CHANCE.sub("", state))


async def record(scenario: Scenario, form: Form) -> str:
    """All runs of the scenario, one after the other, each between a line that begins it and one that ends it."""
    trace_in_place()  # a thread would change the order of things
    recording = _Recording(scenario, form)
    for turn in scenario.turns:
        await recording.play(turn)
    return recording.text()


class _Recording:
    def __init__(self, scenario: Scenario, form: Form) -> None:
        self._scenario, self._form, self._clock = scenario, form, PinnedClock()
        self._saver = TellingSaver(self._clock)
        self._lines: list[Any] = []
        self._open: dict[str, Interrupted] = {}
        self._agent: RunnableAgent | None = None

    def text(self) -> str:
        names: dict[str, str] = {}
        written = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in self._lines)
        written = _TODAY.sub("2023-11-14T22:13:20+00:00", written)
        return _CHANCE.sub(lambda found: names.setdefault(found[0], f"id-{len(names) + 1}"), written)

    async def play(self, turn: Say | Answer) -> None:
        # The agent is built once, as the server does it.
        self._agent = self._agent or await self._scenario.build(self._saver)
        begin, given = self._begin(turn)
        self._lines.append({"begin": {"ts": self._clock.now(), "agent": self._agent.name, **begin}})
        driver = asyncio.ensure_future(self._drive(self._agent, given, turn.cut))
        await asyncio.wait([driver])
        end = {"how": turn.cut.how} if turn.cut else _end(driver.exception())
        self._lines.append({"end": {"ts": self._clock.now(), **end}})

    def _begin(self, turn: Say | Answer) -> tuple[dict[str, Any], Turn]:
        if isinstance(turn, Say):
            message_id = f"message-{len(self._lines)}"
            begun = {"trigger": "message", "message_id": message_id, "text": turn.text}
            return begun, Turn("session", message_id=message_id, text=turn.text)
        answers: dict[str, Answered] = {}
        values: dict[str, Any] = {}
        for ask_id, fact in self._open.items():
            (question,), _ = questions_of(ask_id, fact)
            answers[ask_id] = turn.to(question.question, ask_id)
            values |= resume_values([question], answers)
        self._open = {}
        told = {ask_id: msgspec.to_builtins(answer) for ask_id, answer in answers.items()}
        return {"trigger": "answer", "answers": told}, Turn("session", answers=values)

    async def _drive(self, agent: RunnableAgent, turn: Turn, cut: Cut | None) -> None:
        if self._form == "live":
            await self._live(agent, turn, cut)
            return
        config: RunnableConfig = {"configurable": {"thread_id": turn.session_id}}
        given: Any = Command(resume=dict(turn.answers)) if turn.answers else _input(agent, turn)
        with spending(quotas=agent.options.quotas):
            stream = self._parts(agent, given, config) if self._form == "parts" else self._events(agent, given, config)
            async for line, said in stream:
                self._lines.append(line)
                if cut and cut.after in said:
                    raise asyncio.CancelledError

    async def _live(self, agent: RunnableAgent, turn: Turn, cut: Cut | None) -> None:
        me, over = asyncio.current_task(), False

        def tell(fact: Fact) -> None:
            nonlocal over
            if over:  # what happens while it is being stopped reaches nobody
                return
            self._lines.append(fact_line(fact))
            if isinstance(fact, Interrupted):
                self._open[fact.ask_id] = fact
            if cut and isinstance(fact, ModelToken) and cut.after in fact.text and me:
                over = True
                me.cancel()

        self._saver.ears[:] = [tell]
        await agent.drive(turn, tell, self._clock)

    async def _parts(self, agent: RunnableAgent, given: Any, config: RunnableConfig) -> AsyncIterator[tuple[Any, str]]:
        stream = agent.graph.astream(
            given, config, stream_mode=MODES, subgraphs=True, version="v2", durability="sync", context={}
        )
        async for part in stream:
            data: Any = part["data"]
            line = {"type": part["type"], "ns": list(part["ns"]), "data": plain(data), "ts": self._clock.now()}
            self._note(data if part["type"] == "updates" else None)
            yield line, str(data[0].text) if part["type"] == "messages" and isinstance(data[0], AIMessageChunk) else ""

    async def _events(self, agent: RunnableAgent, given: Any, config: RunnableConfig) -> AsyncIterator[tuple[Any, str]]:
        stream = agent.graph.astream_events(given, config, version="v2", durability="sync", context={})
        async for event in stream:
            data = dict(event["data"])
            if event["event"].endswith("_end"):
                data.pop("input", None)  # it was told at the start
            chunk = data.get("chunk")
            self._note(chunk if not event["parent_ids"] else None)
            yield (
                {**event, "data": plain(data), "metadata": plain(event["metadata"]), "ts": self._clock.now()},
                str(chunk.text) if isinstance(chunk, AIMessageChunk) else "",
            )

    def _note(self, data: Any) -> None:
        """Keep the questions in an update; they are to be answered in the next turn."""
        for found in data.get("__interrupt__", ()) if isinstance(data, Mapping) else ():
            self._open[found.id] = Interrupted(0.0, found.id, found.value, found.response_schema, "")


def _end(error: BaseException | None) -> dict[str, Any]:
    """As whoever drives a run tells how it ended: what was not foreseen is for the operator only."""
    if error is None:
        return {"how": "returned"}
    if isinstance(error, StellwerkError):
        return {"how": "raised", "code": error.code, "message": error.message, "class": type(error).__name__}
    return {"how": "raised", "code": "agent_failed", "message": "the agent raised an error"}


def _input(agent: RunnableAgent, turn: Turn) -> Any:
    given = agent.graph_input.to_input([HumanMessage(turn.text, id=turn.message_id)])
    return {**agent.initial_state, **given} if isinstance(given, dict) else given


def plain(value: Any) -> Any:
    """What the framework gives, as JSON: messages, commands, questions and errors by their fields."""
    match value:
        case BaseMessage():
            return {k: plain(v) for k, v in value.model_dump().items() if v not in (None, "", [], {}) or k == "content"}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items() if key not in _NOISE}
        case list() | tuple():
            return [plain(item) for item in value]
        case BaseException():
            told: dict[str, Any] = {"class": type(value).__name__, "message": str(value)}
            if isinstance(value, GraphBubbleUp):
                told = {"class": type(value).__name__, "interrupts": plain(value.args[0] if value.args else ())}
            return told
        case _ if is_dataclass(value) and type(value).__module__.startswith("langgraph."):
            return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
        case _:
            return canonical(value).value
