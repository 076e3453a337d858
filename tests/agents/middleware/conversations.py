"""A conversation with a real agent: LangChain's create_agent with our middleware, on a scripted model."""

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, Interrupt

from stellwerk.agents.build.kinds import prompt_of
from stellwerk.agents.middleware.build import middleware_for
from stellwerk.agents.middleware.calls import RetryPolicy
from stellwerk.agents.middleware.types import CustomStateShared
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.spec.model import AgentConfig
from stellwerk.spec.script import ScriptCall, ScriptRule, ScriptStep


class Overheard(ScriptedModel):
    """The scripted model, and what it was asked: the conversation and the tools that it was offered."""

    asked: list[list[BaseMessage]] = []
    offered: list[list[str]] = []

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.asked.append(messages)
        self.offered.append([tool["function"]["name"] for tool in kwargs.get("tools", [])])
        return await super()._agenerate(messages, stop, run_manager, **kwargs)


def model(*steps: ScriptStep, **other: list[ScriptStep]) -> Overheard:
    """Plays these steps; those of a keyword if the user's text has that word in it."""
    rules = [ScriptRule(when=word, steps=found) for word, found in other.items()]
    return Overheard(script=[*rules, ScriptRule(steps=list(steps))])


def say(text: str) -> ScriptStep:
    return ScriptStep(say=text)


def call(*names: str, **args: Any) -> ScriptStep:
    """One step that asks for these tools at once, all with the same arguments."""
    return ScriptStep(calls=[ScriptCall(call=name, args=args) for name in names])


class Conversation:
    """One session with one agent; what a user does with it, and what can be seen of it."""

    def __init__(
        self,
        config: AgentConfig,
        chat: BaseChatModel,
        tools: Sequence[BaseTool] = (),
        *,
        saver: BaseCheckpointSaver[Any] | None = None,
        retry_policy: RetryPolicy | None = None,
        name: str = "boss",
    ) -> None:
        self.graph: Any = create_agent(
            chat,
            list(tools),
            system_prompt=prompt_of(config) or None,
            middleware=middleware_for(config, agent=name, judge=chat, retry_policy=retry_policy),
            state_schema=CustomStateShared,
            checkpointer=saver,
            name=name,
        )
        self.config: RunnableConfig = {"configurable": {"thread_id": "session"}}

    async def send(self, text: str) -> list[BaseMessage]:
        """Send a message; gives everything that was said since, in order."""
        return since(text, (await self.graph.ainvoke({"messages": [("user", text)]}, self.config))["messages"])

    async def resume(self, answers: dict[str, Any]) -> list[BaseMessage]:
        """Answer open questions by their ids."""
        given: Command[Any] = Command(resume=answers)
        return list((await self.graph.ainvoke(given, self.config))["messages"])

    async def questions(self) -> list[Interrupt]:
        return list((await self.graph.aget_state(self.config)).interrupts)

    async def updates(self, given: Any) -> list[dict[str, Any]]:
        """The ``updates`` stream of one run."""
        parts = self.graph.astream(given, self.config, stream_mode=["updates"], version="v2")
        return [part["data"] async for part in parts]


def since(text: str, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    last = max(n for n, message in enumerate(messages) if message.type == "human" and message.text == text)
    return list(messages[last + 1 :])


def spoken(messages: Sequence[BaseMessage]) -> list[tuple[str, str]]:
    """Who said what."""
    return [(message.type, str(message.text)) for message in messages]
