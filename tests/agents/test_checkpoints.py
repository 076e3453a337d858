"""The saver's contract: LangGraph's own suite, the fence, tenants, branches and sub-agents."""

import asyncio
import operator
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import BASE_CAPABILITIES
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from stellwerk.agents.checkpoints.saver import EPOCH, DurableSaver
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.database.port import Database, Transaction, locking, session_lock
from stellwerk.errors import BlockedLoop, Fenced
from stellwerk.spec.script import ScriptRule, ScriptStep
from tests import stores
from tests.agents.conftest import TENANT

pytestmark = [pytest.mark.both_stores, pytest.mark.requirement("nodes.store.one-contract")]

SESSION = "session-1"


def configured(thread_id: str = SESSION, *, epoch: int | None = None, **configurable: object) -> RunnableConfig:
    fence = {} if epoch is None else {EPOCH: epoch}
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **fence, **configurable}}


def checkpoint(number: int, **values: object) -> Checkpoint:
    """Ids rise with the number, as LangGraph's do."""
    versions: dict[str, str | int | float] = dict.fromkeys(values, number)
    return {**empty_checkpoint(), "id": f"id-{number:03}", "channel_values": values, "channel_versions": versions}


async def put(saver: DurableSaver, config: RunnableConfig, made: Checkpoint, **metadata: Any) -> RunnableConfig:
    return await saver.aput(config, made, metadata, made["channel_versions"])  # type: ignore[arg-type]


async def listed(saver: DurableSaver, config: RunnableConfig | None, **options: Any) -> list[CheckpointTuple]:
    return [found async for found in saver.alist(config, **options)]


@locking(lambda id_: [session_lock(id_)])
def create_session(tx: Transaction, ids: Sequence[str]) -> list[None]:
    tx.run_many("create_session", [(id_, TENANT, "demo", None, 1, 0, 0.0) for id_ in ids])
    return [None] * len(ids)


@locking(lambda id_: [session_lock(id_)])
def raise_epoch(tx: Transaction, ids: Sequence[str]) -> list[None]:
    for id_ in ids:
        tx.row("raise_epoch", id_, TENANT)
    return [None] * len(ids)


@locking(lambda id_: [session_lock(id_)])
def delete_session(tx: Transaction, ids: Sequence[str]) -> list[None]:
    tx.run_many("delete_session", [(id_, TENANT) for id_ in ids])
    return [None] * len(ids)


@pytest.mark.parametrize("threads", [False, True], ids=["on the loop", "in threads"])
async def test_langgraphs_conformance_suite_passes_for_all_required_capabilities(tmp_path: Path, threads: bool) -> None:
    files = iter(range(100))

    @checkpointer_test(name="DurableSaver")
    async def ours() -> AsyncIterator[DurableSaver]:
        async with stores.opened(tmp_path / f"{next(files)}.db") as database:
            yield InThreads(database) if threads else DurableSaver(database, tenant=TENANT)

    report = await validate(ours)
    failures = {name: result.failures for name, result in report.results.items() if result.passed is False}
    assert failures == {}
    assert {name for name, result in report.results.items() if result.tests_passed} == {
        capability.value for capability in BASE_CAPABILITIES
    }


class InThreads(DurableSaver):
    """Whose async methods call the synchronous ones in a thread, which call those of the saver below."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, tenant=TENANT)
        self.below = DurableSaver(database, tenant=TENANT)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.below.get_tuple, config)

    async def alist(self, config: RunnableConfig | None, **given: Any) -> AsyncIterator[CheckpointTuple]:
        for found in await asyncio.to_thread(lambda: list(self.below.list(config, **given))):
            yield found

    async def aput(self, *given: Any) -> RunnableConfig:
        return await asyncio.to_thread(self.below.put, *given)

    async def aput_writes(self, *given: Any, **more: Any) -> None:
        await asyncio.to_thread(self.below.put_writes, *given, **more)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.below.delete_thread, thread_id)

    async def aget_delta_channel_history(self, **given: Any) -> Any:
        return await asyncio.to_thread(self.below.get_delta_channel_history, **given)


async def test_a_zombie_can_store_nothing_once_the_epoch_was_raised(saver: DurableSaver, database: Database) -> None:
    await database.submit(create_session, SESSION)
    stored = await put(saver, configured(epoch=0), checkpoint(1, a="first"))
    assert stored["configurable"][EPOCH] == 0
    await database.submit(raise_epoch, SESSION)
    with pytest.raises(Fenced) as refusal:
        await put(saver, stored, checkpoint(2, a="zombie"))
    assert refusal.value.message.startswith(f"epoch 0 of session {SESSION} is over")
    with pytest.raises(Fenced):
        await saver.aput_writes(stored, [("a", "zombie")], "task")
    (only,) = await listed(saver, configured())
    assert only.checkpoint["channel_values"] == {"a": "first"}
    assert only.pending_writes == []
    assert await put(saver, configured(checkpoint_id="id-001", epoch=1), checkpoint(2, a="heir"))


@pytest.mark.requirement("fault-59")
async def test_a_late_put_does_not_bring_a_deleted_session_back(saver: DurableSaver, database: Database) -> None:
    await database.submit(create_session, SESSION)
    stored = await put(saver, configured(epoch=0), checkpoint(1, a="x" * 500))
    await database.submit(delete_session, SESSION)
    await saver.adelete_thread(SESSION)
    with pytest.raises(Fenced):
        await put(saver, stored, checkpoint(2, a="y" * 500))
    with pytest.raises(Fenced):
        await saver.aput_writes(stored, [("a", "y" * 500)], "task")
    assert await listed(saver, None) == []


async def test_an_epoch_of_another_tenants_session_opens_nothing(saver: DurableSaver, database: Database) -> None:
    await database.submit(create_session, SESSION)
    with pytest.raises(Fenced):
        await put(DurableSaver(database, tenant="other"), configured(epoch=0), checkpoint(1, a=1))


async def test_a_fenced_put_does_not_fail_its_neighbours_in_the_commit(saver: DurableSaver, database: Database) -> None:
    await database.submit(create_session, SESSION)
    zombie = saver.aput_writes(configured(checkpoint_id="id-001", epoch=7), [("a", 1)], "task")
    refused, *fine = await asyncio.gather(
        zombie,
        put(saver, configured(epoch=0), checkpoint(1, a=1)),
        put(saver, configured("unfenced"), checkpoint(1, a=1)),
        return_exceptions=True,
    )
    assert isinstance(refused, Fenced)
    assert not any(isinstance(outcome, Exception) for outcome in fine)
    assert len(await listed(saver, None)) == 2


async def test_a_tenant_sees_and_deletes_only_its_own(saver: DurableSaver, database: Database) -> None:
    other = DurableSaver(database, tenant="other")
    await put(saver, configured(), checkpoint(1, a="x" * 500), run_id="run")
    assert await other.aget_tuple(configured()) is None
    assert await listed(other, None) == await listed(other, configured()) == []
    await put(other, configured(), checkpoint(1, a="theirs"), run_id="run")
    await other.adelete_thread(SESSION)
    assert await listed(other, None) == []
    (mine,) = await listed(saver, None)
    assert mine.checkpoint["channel_values"] == {"a": "x" * 500}


@pytest.mark.requirement("fault-60")
async def test_no_part_of_a_filter_becomes_sql(saver: DurableSaver) -> None:
    await put(saver, configured(), checkpoint(1), source="loop")
    for key in ("x') OR '1'='1", "source' OR 1=1 --", '$."source"'):
        assert await listed(saver, configured(), filter={key: "loop"}) == []
    assert await listed(saver, configured(), filter={"source": "' OR '1'='1"}) == []
    assert len(await listed(saver, configured(), filter={"source": "loop"})) == 1


async def test_a_call_without_await_on_the_event_loop_is_refused(saver: DurableSaver) -> None:
    with pytest.raises(BlockedLoop, match="await ainvoke"):
        saver.get_tuple(configured())


async def test_an_unchanged_channel_survives_the_deletion_of_the_checkpoint_that_has_it(saver: DurableSaver) -> None:
    first = await put(saver, configured(), checkpoint(1, large="x" * 500, small=1))
    await saver.adelete_thread(SESSION)
    second = checkpoint(2, large="x" * 500, small=2)
    second["channel_versions"]["large"] = 1
    stored = await saver.aput(first, second, {"step": 2}, {"small": 2})
    found = await saver.aget_tuple(stored)
    assert found and found.checkpoint["channel_values"] == {"large": "x" * 500, "small": 2}


class Notes(TypedDict):
    entries: Annotated[list[str], operator.add]
    about: str


def notebook(saver: DurableSaver) -> Any:
    builder = StateGraph(Notes)
    builder.add_node("note", lambda state: {"entries": [f"note {len(state['entries'])} " + "x" * 300]})
    builder.add_edge(START, "note")
    return builder.compile(checkpointer=saver)


async def test_branches_keep_their_own_values(saver: DurableSaver) -> None:
    graph = notebook(saver)
    await graph.ainvoke({"entries": ["start"], "about": "y" * 300}, configured())
    root = await graph.aget_state(configured())
    await graph.ainvoke({"entries": ["left"]}, root.config)
    left = await graph.aget_state(configured())
    await graph.ainvoke({"entries": ["right"]}, root.config)
    right = await graph.aget_state(configured())
    copied = await graph.aget_state(await graph.aupdate_state(left.config, None, as_node="__copy__"))
    assert copied.values == left.values
    for state, word in ((left, "left"), (right, "right"), (copied, "left")):
        again = await graph.aget_state(state.config)
        assert again.values == state.values
        assert again.values["entries"][2] == word
        assert again.values["about"] == "y" * 300


def scripted(*steps: ScriptStep) -> ScriptedModel:
    return ScriptedModel(script=[ScriptRule(steps=list(steps))])


def nested(saver: DurableSaver, inner_tool: BaseTool) -> Any:
    """An agent whose tool is an agent whose tool is the one given."""
    inner = create_agent(
        scripted(ScriptStep(call=inner_tool.name), ScriptStep(say="{result}")), [inner_tool], name="researcher"
    )

    @tool
    async def research() -> str:
        """Ask the researcher."""
        answer = await inner.ainvoke({"messages": [HumanMessage("Go on.")]})
        return str(answer["messages"][-1].text)

    outer = scripted(ScriptStep(call="research"), ScriptStep(say="They said {result}"))
    return create_agent(outer, [research], checkpointer=saver)


async def run(graph: Any, question: object, config: RunnableConfig) -> list[Any]:
    stream = graph.astream(question, config, stream_mode=["messages", "updates"], subgraphs=True, durability="sync")
    return [part async for part in stream]


async def test_the_fence_reaches_the_steps_of_a_sub_agent(saver: DurableSaver, database: Database) -> None:
    @tool
    async def steal() -> str:
        """Lose the lease in the middle of the inner run."""
        await database.submit(raise_epoch, SESSION)
        return "stolen"

    await database.submit(create_session, SESSION)
    with pytest.raises(Fenced):
        await run(nested(saver, steal), {"messages": [HumanMessage("Go.")]}, configured(epoch=0))
    stored = await listed(saver, {"configurable": {"thread_id": SESSION}})
    inner = [found for found in stored if found.config["configurable"]["checkpoint_ns"].startswith("tools:")]
    assert inner
    assert len(stored) > len(inner)
    assert "stolen" not in repr(stored)


async def test_a_sub_agent_that_asked_goes_on_from_its_own_checkpoint(saver: DurableSaver, database: Database) -> None:
    @tool
    async def ask() -> str:
        """Ask the user."""
        return f"the user, who says {interrupt('Which one?')}"

    await database.submit(create_session, SESSION)
    graph, config = nested(saver, ask), configured(epoch=0)
    await run(graph, {"messages": [HumanMessage("Go.")]}, config)
    (question,) = (await graph.aget_state(config)).interrupts
    assert question.value == "Which one?"
    await run(graph, Command(resume={question.id: "the blue one"}), config)
    state = await graph.aget_state(config)
    assert state.next == ()
    assert state.values["messages"][-1].text == "They said the user, who says the blue one"


async def test_deleting_a_thread_takes_its_sub_agents_along(saver: DurableSaver, database: Database) -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "x" * 500

    await run(nested(saver, look), {"messages": [HumanMessage("Go.")]}, configured())
    await saver.adelete_thread(SESSION)
    assert await listed(saver, None) == []
    statements = ("channels_of_thread", "writes_of_thread", "items_of_thread")
    left = await database.read(lambda tx: [tx.rows(name, TENANT, SESSION) for name in statements])
    assert left == [[]] * 3
