"""POST /stream-test: a conversation in, NDJSON out; and the same dialects on a session's own stream."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.api.streams.shared_translation import StreamKey
from stellwerk.api.streams.translated import TranslatedReader
from stellwerk.app import _services
from stellwerk.demo import demo_yaml
from stellwerk.dialects import chunks, events
from stellwerk.dialects.base import Dialect
from stellwerk.log.notify import WakeUps
from stellwerk.settings import Settings
from stellwerk.spec.load import load_system
from stellwerk.tenants.principals import LOCAL
from tests.api.reading import sse
from tests.conftest import running_server

Line = dict[str, Any]


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


def body(*texts: str, **more: Any) -> dict[str, Any]:
    """A conversation in turns; the last is the user's."""
    roles = ["user", "assistant"] if len(texts) % 2 else ["assistant", "user"]
    return {"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)], **more}


def parsed(text: str) -> list[Line]:
    return [json.loads(line) for line in text.split("\n")[:-1]]


async def asked(client: httpx2.AsyncClient, *texts: str, **params: str) -> tuple[str, list[Line]]:
    answer = await client.post("/stream-test", json=body(*texts), params=params)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson"), answer.text
    return answer.headers["Stellwerk-Session"], parsed(answer.text)


def text_of(lines: list[Line], kind: str = "text_final", level: str = "outer_agent") -> str:
    return "".join(line["data"] for line in lines if (line["type"], line["level"]) == (kind, level))


@pytest.mark.requirement(
    "000.stream.media-type",
    "000.stream.one-object-per-line",
    "000.endpoint.takes-a-stream-request",
    "000.endpoint.builds-or-uses-test-agent",
)
async def test_a_question_is_answered_by_the_demo_as_chunks(client: httpx2.AsyncClient) -> None:
    sid, lines = await asked(client, "weather")
    assert [line["data"] for line in lines if line["type"] == "text_step"] == [
        "[outer_agent] START: assistant",
        "I will look at the weather. ",
        "[outer_agent] CALLING TOOL: get_weather",
    ]
    (result,) = [line["data"] for line in lines if line["type"] == "tool_results"]
    assert (result["kind"], result["rows"]) == ("table", [["Berlin", "sunny", 21]])
    assert text_of(lines).startswith("It is sunny.")
    stored = (await client.get(f"/sessions/{sid}")).json()
    assert (stored["agent_system_id"], stored["status"]) == ("demo", "completed")


@pytest.mark.requirement("000.stream.outer-is-the-only-source", "000.inner.forwarded-to-outer-stream")
async def test_what_inner_agents_do_is_in_the_same_stream(client: httpx2.AsyncClient) -> None:
    _, lines = await asked(client, "delegate this")
    inner = [line for line in lines if line["level"] == "inner_agent"]
    assert {line["agent_name"] for line in inner} == {"researcher"}
    assert [line["type"] for line in inner].count("text_final") == 1
    assert lines.index(inner[-1]) < next(
        n for n, line in enumerate(lines) if line["type"] == "text_final" and line not in inner
    )


@pytest.mark.requirement(
    "001.backend.ndjson-endpoint", "001.backend.no-mixed-protocol", "001.backend.ends-after-answer"
)
async def test_the_other_dialect_has_events_and_nothing_else(client: httpx2.AsyncClient) -> None:
    _, lines = await asked(client, "weather", dialect="events")
    assert [line["type"] for line in lines][:2] == ["toolcall_request", "toolcall_result"]
    assert {line["type"] for line in lines[2:]} == {"text_message"}
    assert "".join(line["payload"]["text"] for line in lines[2:]).startswith("It is sunny.")


@pytest.mark.requirement("000.stream.real-streaming")
async def test_live_shows_text_while_the_agent_still_works(client: httpx2.AsyncClient) -> None:
    request = client.stream("POST", "/stream-test", json=body("hello"), params={"live": "true"})
    async with request as answer, asyncio.timeout(20):
        sid = answer.headers["Stellwerk-Session"]
        lines = answer.aiter_lines()
        first = [json.loads(await anext(lines)) for _ in range(2)]
        assert [line["type"] for line in first] == ["text_step", "text_delta"]
        assert (await client.get(f"/sessions/{sid}")).json()["status"] == "running"
        rest = [json.loads(line) async for line in lines]
    assert text_of([*first, *rest], "text_delta") == text_of(rest)


@pytest.mark.requirement("000.endpoint.builds-or-uses-test-agent")
async def test_earlier_messages_are_history_for_the_agent_and_in_the_log(own: httpx2.AsyncClient) -> None:
    answer = await own.post("/stream-test", json=body("I am Ada", "Hello Ada", "who am I?", agent_system_id="echo"))
    assert text_of(parsed(answer.text)) == "human: I am Ada | ai: Hello Ada | human: who am I?"
    events = (await own.get(f"/sessions/{answer.headers['Stellwerk-Session']}/events")).json()["events"]
    said = [(e["payload"]["role"], e["payload"]["status"]) for e in events if e["type"] == "message"]
    assert said == [("user", "step"), ("assistant", "step"), ("user", "first"), ("assistant", "last")]
    assert [e["type"] for e in events[:4]] == ["message", "message", "run_start", "message"]
    assert "run_id" not in events[0]


async def test_the_next_round_still_knows_the_history(own: httpx2.AsyncClient) -> None:
    answer = await own.post("/stream-test", json=body("I am Ada", "Hello Ada", "hi", agent_system_id="echo"))
    sid = answer.headers["Stellwerk-Session"]
    accepted = (await own.post(f"/sessions/{sid}/messages", json={"text": "and now?"})).json()
    events = await sse(own, f"/sessions/{sid}/stream", after=str(accepted["after"]), until="run_end")
    assert events[0]["type"] == "run_start"
    assert events[-1]["payload"]["result"].startswith(
        "human: I am Ada | ai: Hello Ada | human: hi | ai: human: I am Ada"
    )


async def test_a_run_that_had_to_wait_for_its_turn_knows_the_history_too(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", slots=1)
    graph = tmp_path / "echo.py"
    graph.write_text(ECHO)
    async with running_server(settings, own={"echo": f"{graph}:graph"}) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            first = asyncio.create_task(client.post("/stream-test", json=body("hello")))
            second = await client.post("/stream-test", json=body("a", "b", "c", agent_system_id="echo"))
            assert text_of(parsed(second.text)) == "human: a | ai: b | human: c"
            await first


async def test_a_question_is_one_line_and_ends_the_stream(client: httpx2.AsyncClient) -> None:
    sid, lines = await asked(client, "ask me")
    assert [line["ask_id"] for line in lines if "ask_id" in line] == [lines[-1]["ask_id"]]
    assert lines[-1]["data"] == "Which colour do you like?"
    assert lines[-1]["question"]["options"] == ["red", "green", "blue"]
    assert (await client.get(f"/sessions/{sid}")).json()["awaiting_user_input"] is True


@pytest.mark.parametrize("dialect", [chunks.DIALECT, events.DIALECT], ids=lambda dialect: dialect.name)
async def test_a_heartbeat_is_a_blank_in_front_of_the_next_line(tmp_path: Path, dialect: Dialect) -> None:
    wakes = WakeUps()
    async with _services(Settings(data=tmp_path, demo=True), wakes, {}) as services, asyncio.timeout(20):
        session = await services.sessions.begin(LOCAL.tenant, "demo", None)
        key = StreamKey(session.id, dialect, "user")
        stream = TranslatedReader(services.streams, LOCAL, key).stream(after=(0, 0), head=0, until_run_end=True)
        first = asyncio.ensure_future(anext(stream))
        while not first.done():
            wakes.heartbeat()
            await asyncio.sleep(0)
        assert first.result() == b" "
        await services.sessions.send(LOCAL.tenant, session.id, "fail")
        rest = b"".join([piece async for piece in stream])
    assert all("agent_name" in json.loads(line) for line in (b" " + rest).split(b"\n")[:-1])


async def test_a_failure_is_an_error_line(client: httpx2.AsyncClient) -> None:
    _, lines = await asked(client, "fail")
    assert (lines[-1]["type"], lines[-1]["data"]["fatal"]) == ("error", True)
    assert lines[-1]["data"]["message"] == "the script of the demo says that this run fails"


async def test_leaving_does_not_stop_the_run(client: httpx2.AsyncClient) -> None:
    async with client.stream("POST", "/stream-test", json=body("weather")) as answer:
        sid = answer.headers["Stellwerk-Session"]
    events = await sse(client, f"/sessions/{sid}/stream", until="run_end")
    assert events[-1]["payload"]["status"] == "completed"


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "user", "content": ""}]}, "messages.content"),
    ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
    ({"messages": [{"role": "robot", "content": "hi"}]}, "messages.role"),
    ({"messages": [{"role": "user"}]}, "messages.content"),
    ({"messages": [{"role": "user", "content": "hi", "name": "Ada"}]}, "messages.name"),
    ({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}, "messages"),
    ({"messages": [{"content": "hi"}], "model": "x"}, "model"),
    ({"messages": [{"content": "hi"}] * 501}, "messages"),
]


async def test_a_bad_body_is_a_problem_that_names_the_field(client: httpx2.AsyncClient) -> None:
    before = [each["id"] for each in (await client.get("/sessions")).json()["sessions"]]
    for sent, field in BAD:
        answer = await client.post("/stream-test", json=sent)
        assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
        assert (answer.json()["code"], answer.json()["field"]) == ("invalid_field", field)
    assert [each["id"] for each in (await client.get("/sessions")).json()["sessions"]] == before


async def test_a_dialect_that_there_is_not_is_refused(client: httpx2.AsyncClient) -> None:
    for params in ({"dialect": "klingon"}, {"dialect": "events", "live": "true"}):
        answer = await client.post("/stream-test", json=body("hi"), params=params)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_field")


async def test_an_unknown_system_is_not_found(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/stream-test", json=body("hi", agent_system_id="nobody"))
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_agent_system")


async def test_when_too_many_wait_nothing_is_left_behind(tmp_path: Path) -> None:
    async with running_server(Settings(data=tmp_path, slots=1, waiting=0)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            async with client.stream("POST", "/stream-test", json=body("hello")) as first:
                refused = await client.post("/stream-test", json=body("hello"))
                assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
                (kept,) = (await client.get("/sessions")).json()["sessions"]
                assert kept["id"] == first.headers["Stellwerk-Session"]


@pytest.mark.parametrize(
    "params", [{"dialect": "chunks"}, {"dialect": "chunks", "live": "true"}, {"dialect": "events"}]
)
async def test_a_reader_of_a_dialect_comes_back_with_any_id_and_sees_the_rest(
    client: httpx2.AsyncClient, params: dict[str, str]
) -> None:
    sid, lines = await asked(client, "weather", **params)
    path, until = f"/sessions/{sid}/stream", {**params, "until": "run_end"}
    whole = await client.get(path, params=until)
    assert whole.headers["content-type"] == "application/x-ndjson"
    assert parsed(whole.text) == lines
    for seen in (0, 1, len(lines) // 2, len(lines) - 2, len(lines) - 1):
        rest = await client.get(path, params={**until, "after": lines[seen]["id"]})
        assert parsed(rest.text) == lines[seen + 1 :]
    behind = await client.get(
        path, params={**until, "after": str((await client.get(f"/sessions/{sid}")).json()["position"])}
    )
    assert behind.text == ""


@pytest.mark.requirement(
    "000.runnable.outer-astream-yields-ndjson",
    "000.runnable.normalises-inner-and-outer",
    "000.endpoint.streams-outer-astream",
)
async def test_the_library_yields_the_same_lines_as_the_server(client: httpx2.AsyncClient) -> None:
    factory = AgentFactory(Resources())
    loaded = load_system(demo_yaml(), source="demo.yaml")
    agent = await factory.build((await factory.admitted(loaded)).root, loaded.system.system)
    yielded = [json.loads(line) async for line in agent.outer_astream("weather")]
    _, served = await asked(client, "weather")
    volatile = ("id", "ts", "message_id")
    assert [{k: v for k, v in line.items() if k not in volatile} for line in yielded] == [
        {k: v for k, v in line.items() if k not in volatile} for line in served
    ]


ECHO = '''
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


def echo(state: MessagesState):
    """Repeats its input, so that a test can see it."""
    return {"messages": [AIMessage(" | ".join(f"{m.type}: {m.content}" for m in state["messages"]))]}


builder = StateGraph(MessagesState)
builder.add_node("echo", echo)
builder.add_edge(START, "echo")
graph = builder.compile()
'''


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A server with a graph that repeats its input."""
    graph = tmp_path / "echo.py"
    graph.write_text(ECHO)
    async with running_server(Settings(data=tmp_path / "own"), own={"echo": f"{graph}:graph"}) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            yield client
