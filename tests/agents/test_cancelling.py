"""A run that is cancelled, at whatever moment, is over when it says so: nothing of it is left on the event loop."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.runtime.conversation import Turn
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.tools.registry import Tools
from stellwerk.agents.tools.spec import tool
from stellwerk.ids import SystemClock
from stellwerk.spec.model import AgentAsTool
from tests.agents.agent_runs import agent, call, say

MOST_STEPS = 5000
"""Turns of the event loop; a run takes some hundred."""


class SlowSaver(InMemorySaver):
    """One that lets the event loop turn, as a database does: a run can be cancelled there, too."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        await asyncio.sleep(0)
        return await super().aget_tuple(config)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        await asyncio.sleep(0)
        return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await asyncio.sleep(0)
        await super().aput_writes(config, writes, task_id, task_path)


@tool(idempotent=True)
async def look(where: str) -> str:
    """Look somewhere."""
    await asyncio.sleep(0)
    return where


async def delegating() -> RunnableAgent:
    inner = agent("inner", call("look", where="there"), say("seen"), tools=["look"])
    outer = agent("outer", call("inner", task="look"), say("done"))
    outer = outer.model_copy(update={"agents_as_tools": [AgentAsTool(agent=inner)]})
    return await AgentFactory(Resources(tools=Tools([look]), saver=SlowSaver())).build(outer)


async def speaking() -> RunnableAgent:
    """A graph whose nodes return messages that no model has written: what it knew before is looked up for each."""

    async def speak(state: MessagesState) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"messages": [AIMessage("hello", id="hello")]}

    graph = StateGraph(MessagesState).add_node("speak", speak).add_node("repeat", speak)
    graph.add_edge(START, "speak").add_edge("speak", "repeat")
    return RunnableAgent("own", graph.compile(checkpointer=SlowSaver()))


async def cancelled_at_each_step(built: RunnableAgent) -> AsyncIterator[tuple[int, list[str]]]:
    """Cancel one run after the other, each a turn of the event loop later, until one ends by itself; what each left."""
    for step in range(1, MOST_STEPS):
        turn = Turn(f"session-{step}", message_id="m1", text="go")
        run = asyncio.create_task(built.drive(turn, lambda fact: None, SystemClock()))
        for _ in range(step):
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait([run])
        left = asyncio.all_tasks() - {asyncio.current_task()}
        yield step, [str(task) for task in left]
        if not run.cancelled():
            await run
            return
    raise AssertionError("the run never ends by itself")


@pytest.mark.parametrize("build", [speaking, delegating])
async def test_a_run_that_is_cancelled_at_any_moment_leaves_nothing_behind(build: Any) -> None:
    built = await build()
    moments = 0
    async for step, left in cancelled_at_each_step(built):
        assert left == [], f"cancelled at turn {step} of the event loop"
        moments = step
    gc.collect()  # what was never awaited is told by a warning, which is an error here
    assert moments > 20
