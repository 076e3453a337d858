"""Runs of agents and graphs without a server, for tests: the envelopes that the log would hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.runtime.conversation import Turn
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.envelope.model import AskUser, Envelope, LlmToken, RunEnd, ToolEnd, ToolStart, type_of
from stellwerk.envelope.payloads import Answered
from stellwerk.spec.model import AgentConfig, ChatMessage, CompleteAgent, ModelSpec, ToolSchema
from stellwerk.spec.script import ScriptCall, ScriptRule, ScriptStep
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.calls import OpenCalls
from stellwerk.stream.facts import Fact
from stellwerk.testing.order import order_problems
from tests.samples import SteadyClock, run_end, run_start


async def same_factory(_tenant: str, _system: str) -> AgentFactory:
    """The same resources for every tenant and system."""
    return AgentFactory()


def scripted(*steps: ScriptStep) -> ModelSpec:
    return ModelSpec(script=[ScriptRule(steps=list(steps))])


def say(text: str) -> ScriptStep:
    return ScriptStep(say=text)


def call(name: str, **args: Any) -> ScriptStep:
    return ScriptStep(call=name, args=args)


def calls(*wanted: tuple[str, dict[str, Any]]) -> ScriptStep:
    return ScriptStep(calls=[ScriptCall(call=name, args=args) for name, args in wanted])


def agent(name: str, *steps: ScriptStep, tools: Sequence[str] = (), **config: Any) -> CompleteAgent:
    """An agent that plays these steps and has these tools."""
    schemas = [ToolSchema(name=tool) for tool in tools]
    return CompleteAgent(name=name, model=scripted(*steps), tool_schemas=schemas, config=AgentConfig(**config))


@dataclass
class Conversation:
    """A session without a server."""

    agent: RunnableAgent
    session_id: str = "s1"
    log: list[Envelope] = field(default_factory=list)

    async def send(self, text: str) -> list[Envelope]:
        message = ChatMessage(content=text)
        return await self._take(self.agent.envelopes([message], session_id=self.session_id, history=list(self.log)))

    async def answer(self, answers: Mapping[str, Any]) -> list[Envelope]:
        """By ask_id: a text, or data."""
        given = {
            ask_id: Answered(ask_id=ask_id, text=value)
            if isinstance(value, str)
            else Answered(ask_id=ask_id, data=value)
            for ask_id, value in answers.items()
        }
        run = self.agent.envelopes(answers=given, session_id=self.session_id, history=list(self.log))
        return await self._take(run)

    async def reply(self, answer: Answered) -> list[Envelope]:
        run = self.agent.envelopes(answers={answer.ask_id: answer}, session_id=self.session_id, history=list(self.log))
        return await self._take(run)

    async def _take(self, run: Any) -> list[Envelope]:
        envelopes = [envelope async for envelope in run]
        self.log += envelopes
        assert order_problems(self.log) == []
        return envelopes


async def run_graph(graph: Any) -> list[Envelope]:
    """The envelopes of one run of the graph."""
    adapter = StreamAdapter(trace_id="trace", run_id="run", agent="boss")
    calls = OpenCalls()
    envelopes: list[Envelope] = [calls.stamp(run_start())]

    def emit(fact: Fact) -> None:
        envelopes.extend(calls.stamp(envelope) for envelope in adapter.feed(fact))

    await RunnableAgent("boss", graph).drive(Turn("thread", 1, "m1", "hello"), emit, SteadyClock())
    envelopes += [calls.stamp(envelope) for envelope in adapter.finish()]
    return [*envelopes, calls.stamp(run_end())]


def ended(envelopes: Sequence[Envelope]) -> str:
    (end,) = [e for e in envelopes if isinstance(e, RunEnd)]
    return end.payload.status


def result(envelopes: Sequence[Envelope]) -> str:
    (end,) = [e for e in envelopes if isinstance(e, RunEnd)]
    return end.payload.result or ""


def asks(envelopes: Sequence[Envelope]) -> list[AskUser]:
    return [e for e in envelopes if isinstance(e, AskUser)]


def starts(envelopes: Sequence[Envelope], tool: str | None = None) -> list[ToolStart]:
    return [e for e in envelopes if isinstance(e, ToolStart) and tool in (None, e.payload.tool_name)]


def ends(envelopes: Sequence[Envelope], tool: str | None = None) -> list[ToolEnd]:
    return [e for e in envelopes if isinstance(e, ToolEnd) and tool in (None, e.payload.tool_name)]


def text(envelopes: Sequence[Envelope]) -> str:
    return "".join(e.payload.text for e in envelopes if isinstance(e, LlmToken))


def types(envelopes: Sequence[Envelope]) -> list[str]:
    return [type_of(e) for e in envelopes]
