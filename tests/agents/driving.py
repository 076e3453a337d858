"""Runs of built agents, for tests: what the log would hold, kept in order, so that a run can be answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stellwerk.agents.factory import AgentFactory
from stellwerk.agents.runnable import RunnableAgent
from stellwerk.envelope.model import AskUser, Envelope, LlmToken, RunEnd, ToolEnd, ToolStart, type_of
from stellwerk.envelope.order import legal
from stellwerk.envelope.payloads import Answered
from stellwerk.spec.chat import ChatMessage
from stellwerk.spec.model import AgentConfig, CompleteAgent, ModelSpec, ToolSchema
from stellwerk.spec.script import ScriptCall, ScriptRule, ScriptStep


async def agents_of_anybody(_tenant: str, _system: str) -> AgentFactory:
    """For tests in which nobody minds whose agents are built."""
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
        told = [envelope async for envelope in run]
        self.log += told
        assert legal(self.log) == []
        return told


def ended(told: Sequence[Envelope]) -> str:
    (end,) = [e for e in told if isinstance(e, RunEnd)]
    return end.payload.status


def result(told: Sequence[Envelope]) -> str:
    (end,) = [e for e in told if isinstance(e, RunEnd)]
    return end.payload.result or ""


def asks(told: Sequence[Envelope]) -> list[AskUser]:
    return [e for e in told if isinstance(e, AskUser)]


def starts(told: Sequence[Envelope], tool: str | None = None) -> list[ToolStart]:
    return [e for e in told if isinstance(e, ToolStart) and tool in (None, e.payload.tool_name)]


def ends(told: Sequence[Envelope], tool: str | None = None) -> list[ToolEnd]:
    return [e for e in told if isinstance(e, ToolEnd) and tool in (None, e.payload.tool_name)]


def text(told: Sequence[Envelope]) -> str:
    return "".join(e.payload.text for e in told if isinstance(e, LlmToken))


def types(told: Sequence[Envelope]) -> list[str]:
    return [type_of(e) for e in told]
