"""Five small graphs in the manner of public projects, served from their langgraph.json beside a stand-in model.

Each runs as in a process of its own: same state, every model call in its place, questions answered, stopped and
killed in mid-token.
"""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import Event
from tests.conftest import running_server
from tests.crash.process import server_process
from tests.crash.waiting import eventually
from tests.patterns import jokes, letters, memories, research, searcher
from tests.runs.talking import events, log_of, rest_of_run, seen, stop
from tests.stand_in.server import StandIn, standing_in

# Of the vendors' clients: one warns of its own serialisation, and none closes its connections.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
PROJECT = str(Path(__file__).parent / "patterns/langgraph.json")


@dataclass(frozen=True)
class Pattern:
    message: dict[str, Any]
    model_calls: int
    answers: list[Any] = field(default_factory=list)
    """In the form of the graph itself."""
    tools: list[str] = field(default_factory=list)
    levels: int = 1
    """How deep the deepest call is below the run."""


LETTER = {"author": "Bob", "text": "Shall we meet? [[kind=respond]]"}
PATTERNS = {
    "searcher": Pattern(
        {"text": "What is a tram?", "context": {"model": "large", "language": "German"}}, 2, tools=["search"]
    ),
    "jokes": Pattern({"input": {"topic": "animals"}}, 4),
    "letters": Pattern(
        {"input": {"letter": LETTER}}, 3, answers=[[{"type": "accept", "args": None}]], tools=["send_letter"]
    ),
    "memories": Pattern({"text": "I am Ann, and I like trams."}, 2),
    "research": Pattern({"text": "Trams, please"}, 6, tools=["look_up", "look_up"], levels=2),
}


@pytest.fixture
async def stand_in(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StandIn]:
    async with standing_in() as found:
        monkeypatch.setenv("OPENAI_API_BASE", f"{found.address}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback-4711")
        yield found
    gc.collect()  # what a client leaves open belongs to this test, and to none that follows


@asynccontextmanager
async def serving(data: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with running_server(Settings(data=data), own=systems_of([PROJECT])) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


async def begun(client: httpx2.AsyncClient, name: str, user: str = "ann") -> str:
    made = await client.post("/sessions", json={"agent_system_id": name, "user_id": user})
    return str(made.json()["id"])


async def sent(client: httpx2.AsyncClient, sid: str, name: str) -> int:
    accepted = await client.post(f"/sessions/{sid}/messages", json=PATTERNS[name].message)
    assert accepted.status_code == 202, accepted.text
    return int(accepted.json()["after"])


async def whole(client: httpx2.AsyncClient, sid: str, name: str, after: int = 0) -> list[Event]:
    """The round to its end, with its questions answered."""
    found = await rest_of_run(client, sid, after)
    for answer in PATTERNS[name].answers:
        assert found[-1]["payload"]["status"] == "awaiting_user", found[-1]
        accepted = await client.post(f"/sessions/{sid}/answers", json={"data": answer})
        assert accepted.status_code == 202, accepted.text
        found += await rest_of_run(client, sid, accepted.json()["after"])
    return found


async def values(client: httpx2.AsyncClient, sid: str) -> Any:
    return plain((await client.get(f"/sessions/{sid}/state/values")).json()["values"])


async def alone(name: str) -> Any:
    """The final state of the graph without any server."""
    graphs: dict[str, CompiledStateGraph[Any, Any, Any, Any]] = {
        "searcher": searcher.graph,
        "jokes": jokes.graph,
        "letters": letters.graph,
        "memories": memories.graph,
        "research": await research.make_graph({}),
    }
    pattern = PATTERNS[name]
    graph = graphs[name].copy(update={"checkpointer": InMemorySaver(), "store": InMemoryStore()})
    text = pattern.message.get("text")
    given = pattern.message.get("input") or {"messages": [("user", text)]}
    context = pattern.message.get("context")
    steps: list[Any] = [given, *(Command(resume=answer) for answer in pattern.answers)]
    for step in steps:
        await graph.ainvoke(step, {"configurable": {"thread_id": "1", "user_id": "ann"}}, context=context)
    return plain((await graph.aget_state({"configurable": {"thread_id": "1"}})).values)


def plain(value: Any) -> Any:
    """What two runs have in common: all but ids, and what a vendor says about itself."""
    if isinstance(value, BaseMessage):
        value = value.model_dump()
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "content" in value and value.get("type") in ("human", "ai", "tool"):
        calls = [(call["name"], call["args"]) for call in value.get("tool_calls") or ()]
        return value["type"], value["content"], calls
    return {key: plain(one) for key, one in value.items()}


@pytest.mark.parametrize("name", PATTERNS)
async def test_a_graph_ends_with_the_state_that_it_has_without_a_server(
    name: str, stand_in: StandIn, tmp_path: Path
) -> None:
    expected = await alone(name)
    stand_in.prompts.clear()
    async with serving(tmp_path) as client:
        sid = await begun(client, name)
        found = await whole(client, sid, name, await sent(client, sid, name))
        assert found[-1]["payload"]["status"] == "completed"
        assert await values(client, sid) == expected
    assert stand_in.refused == []
    started = {event["call_id"]: event for event in found if event["type"] in ("llm_start", "tool_start")}
    kinds = [event["type"] for event in started.values()]
    assert kinds.count("llm_start") == len(stand_in.prompts) == PATTERNS[name].model_calls
    tools = [event["payload"]["tool_name"] for event in started.values() if event["type"] == "tool_start"]
    assert [tool for tool in tools if tool in PATTERNS[name].tools] == PATTERNS[name].tools
    assert max(level(started, one) for one in started) == PATTERNS[name].levels
    assert order_problems(log_of(found)) == []


def level(started: dict[str, Event], call: str) -> int:
    return 1 + level(started, started[call]["parent_id"]) if call in started else 0


async def test_each_user_of_a_chatbot_has_memories_of_their_own(stand_in: StandIn, tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        for user in ("ann", "bob", "ann"):
            sid = await begun(client, "memories", user)
            await whole(client, sid, "memories", await sent(client, sid, "memories"))
    first, _, second, _, third, _ = stand_in.prompts
    known = [prompt.messages[0]["content"] for prompt in (first, second, third)]
    assert known[0] == known[1] == "You know of this user: []"
    assert "I like trams" in known[2]


async def test_a_stop_in_mid_token_ends_a_graph_and_its_session_continues(stand_in: StandIn, tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        for name, pattern in PATTERNS.items():
            stand_in.hold(after=pattern.model_calls // 2)
            sid = await begun(client, name)
            after = await sent(client, sid, name)
            await eventually(lambda: stand_in.held > 0, within=60, what="no reply is held")
            await seen(client, sid, "llm_token")  # its first half is shown already
            await stop(client, sid)
            stand_in.release()
            assert (await rest_of_run(client, sid, after))[-1]["payload"]["status"] == "stopped"
            assert (await whole(client, sid, name, await sent(client, sid, name)))[-1]["payload"][
                "status"
            ] == "completed"
            assert order_problems(log_of(await events(client, sid))) == []
    assert stand_in.refused == []


@pytest.mark.timeout(600)
async def test_after_kill_9_in_mid_token_every_graph_ends_with_the_state_that_it_has_without_a_server(
    stand_in: StandIn, tmp_path: Path
) -> None:
    expected = {name: await alone(name) for name in PATTERNS}
    sessions: dict[str, str] = {}
    errors = tmp_path / "errors"
    with server_process(tmp_path / "data", errors=errors, serves=[PROJECT]) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            for name, pattern in PATTERNS.items():
                before = stand_in.held
                stand_in.hold(after=pattern.model_calls // 2)
                sessions[name] = await begun(client, name)
                await sent(client, sessions[name], name)
                await eventually(lambda: stand_in.held > before, within=60, what=f"no reply of {name} is held")  # noqa: B023
            server.kill()
    stand_in.release()
    with server_process(tmp_path / "data", errors=errors, serves=[PROJECT]) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            for name, sid in sessions.items():
                found = await whole(client, sid, name)
                assert found[-1]["payload"]["status"] == "completed", (name, found[-1])
                assert await values(client, sid) == expected[name]
                assert order_problems(log_of(await events(client, sid))) == []
    assert stand_in.refused == []
