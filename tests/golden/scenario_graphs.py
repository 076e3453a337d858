"""The graphs of the scenarios that no description gives: hand-written ones, and models with moods."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.agents.build.kinds import BuiltAgent, KindParts, build_deep
from stellwerk.agents.middleware.build import middleware_for
from stellwerk.agents.middleware.calls import RetryPolicy
from stellwerk.agents.runtime.runnable import MESSAGES, RunnableAgent
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.scripted.schema_prompting import SchemaPrompted
from stellwerk.agents.tools.call import langchain_tool
from stellwerk.spec.model import AgentAsTool, AgentConfig, CompleteAgent
from stellwerk.spec.script import ScriptRule, ScriptStep
from tests.agents.agent_runs import call, say
from tests.golden.scenario_tools import weather

Saver = Any


def model(*steps: ScriptStep) -> ScriptedModel:
    return ScriptedModel(script=[ScriptRule(steps=list(steps))])


async def at_once(seconds: float) -> None:
    await asyncio.sleep(0)


def with_layers(chat: BaseChatModel, saver: Saver, tools: Sequence[Any] = ()) -> RunnableAgent:
    layers = middleware_for(AgentConfig(), agent="boss", judge=chat, retry_policy=RetryPolicy(1, sleep=at_once))
    graph = create_agent(chat, list(tools), middleware=layers, name="boss", checkpointer=saver)
    return RunnableAgent("boss", graph)


class Flaky(ScriptedModel):
    """Breaks down the first time, before it has said a word."""

    broken: list[int] = []

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        if not self.broken:
            self.broken.append(1)
            raise ConnectionError("gone")
        async for chunk in super()._astream(*args, **kwargs):
            yield chunk


async def retried(saver: Saver) -> RunnableAgent:
    return with_layers(Flaky(script=[ScriptRule(steps=[say("All is well.")])]), saver)


class Thinking(ScriptedModel):
    """Thinks aloud before it speaks, in blocks, as providers give them."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for thought in ("They ask ", "for a number."):
            block = {"type": "reasoning", "reasoning": thought, "index": 0}
            yield ChatGenerationChunk(message=AIMessageChunk(content=[block]))
        async for chunk in super()._astream(*args, **kwargs):
            text = str(chunk.message.content)
            blocks = [{"type": "text", "text": text, "index": 1}] if text else []
            yield ChatGenerationChunk(message=chunk.message.model_copy(update={"content": blocks}))


async def thinking(saver: Saver) -> RunnableAgent:
    return with_layers(Thinking(script=[ScriptRule(steps=[say("It is 42.")])]), saver)


async def schema_prompted(saver: Saver) -> RunnableAgent:
    action = '{"tool": "weather", "args": {"city": "Ulm"}}'
    # What a tool gave is a message like the user's for such a model.
    rules = [ScriptRule(when="21", steps=[say("It is warm.")]), ScriptRule(steps=[say(action)])]
    chat = SchemaPrompted(inner=ScriptedModel(script=rules))
    return with_layers(chat, saver, [langchain_tool(weather)])


class Hanging(ScriptedModel):
    """Says its words, and then never comes to an end."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        async for chunk in super()._astream(*args, **kwargs):
            if chunk.message.content:
                yield chunk
        await asyncio.Event().wait()


async def race(state: MessagesState) -> dict[str, Any]:
    """Asks two models, takes the one that is done first and leaves the other alone in mid-sentence."""
    slow = Hanging(script=[ScriptRule(steps=[say("Well,")])])
    quick = model(say("That is an easy one."))
    racers = [asyncio.ensure_future(chat.ainvoke(state["messages"])) for chat in (slow, quick)]
    done, late = await asyncio.wait(racers, return_when=asyncio.FIRST_COMPLETED)
    for one in late:
        one.cancel()
    await asyncio.wait(late)
    return {"messages": [done.pop().result()]}


async def raced(saver: Saver) -> RunnableAgent:
    builder = StateGraph(MessagesState)
    builder.add_node(race)
    builder.add_edge(START, "race")
    return RunnableAgent("racer", builder.compile(checkpointer=saver))


class Pricing(TypedDict):
    messages: list[AnyMessage]
    items: list[str]
    total: int


class Desk(MessagesState):
    items: list[str]
    total: int


async def look_up(state: Pricing) -> dict[str, Any]:
    heard = await model(say("lamp, chair")).ainvoke(state["messages"])
    return {"items": str(heard.text).split(", ")}


async def add_up(state: Pricing) -> dict[str, Any]:
    agreed = interrupt(f"That is {100 * len(state['items'])} euros. All right?")
    return {"total": 100 * len(state["items"]) if agreed == "yes" else 0}


async def quote(state: Desk) -> dict[str, Any]:
    return {"messages": [AIMessage(f"Noted: {state['total']} euros.")]}


async def own_keys(saver: Saver) -> RunnableAgent:
    pricing = StateGraph(Pricing)
    pricing.add_sequence([look_up, add_up])
    pricing.add_edge(START, "look_up")
    desk = StateGraph(Desk)
    desk.add_node("pricing", pricing.compile())
    desk.add_node(quote)
    desk.add_edge(START, "pricing")
    desk.add_edge("pricing", "quote")
    return RunnableAgent("desk", desk.compile(checkpointer=saver))


class Survey(MessagesState):
    seen: str


async def look(state: Survey) -> dict[str, Any]:
    return {"seen": str(state["messages"][-1].text)}


async def tell(state: Survey) -> dict[str, Any]:
    heard = await model(say("seen it")).ainvoke(state["messages"])
    return {"messages": [AIMessage(f"{heard.text}: {state['seen']}", id="told-by-survey")]}


async def deep(saver: Saver) -> RunnableAgent:
    builder = StateGraph(Survey)
    builder.add_sequence([look, tell])
    builder.add_edge(START, "look")
    survey = AgentAsTool(agent=CompleteAgent(name="survey", description="Looks around."))
    below = [(survey, BuiltAgent(builder.compile(), MESSAGES, untrusted=False))]
    todos = [{"content": "look around", "status": "in_progress"}]
    boss = model(
        call("write_todos", todos=todos),
        call("write_file", file_path="/notes.md", content="found"),
        call("task", description="the garden", subagent_type="survey"),
        say("All done."),
    )
    described = CompleteAgent(name="boss", kind="deep")
    parts = KindParts(boss, below=below, middleware=[TodoListMiddleware()], saver=saver)
    return RunnableAgent("boss", build_deep(described, parts))
