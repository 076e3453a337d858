"""Fork and regenerate: another way to go on from what was said, and nothing of the way not taken."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import without_origin
from tests.conftest import running_server
from tests.crash.waiting import eventually
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, send

SYSTEM = Path(__file__).parent / "resumed_system"


@pytest.fixture
async def echo(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    settings = Settings(data=tmp_path)
    async with running_server(
        settings, own={name: f"{SYSTEM / name}.py:graph" for name in ("echo", "replayed")}
    ) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


async def say(client: httpx2.AsyncClient, sid: str, text: str) -> tuple[str, int]:
    """What is answered, and where its run ended."""
    end = (await rest_of_run(client, sid, (await send(client, sid, text))["after"]))[-1]
    return end["payload"]["result"], end["position"]


async def regenerate(client: httpx2.AsyncClient, sid: str) -> str:
    accepted = (await client.post(f"/sessions/{sid}/regenerate")).json()
    told = await rest_of_run(client, sid, accepted["after"])
    return str(told[-1]["payload"]["result"])


async def test_a_fork_has_the_same_log_up_to_there_and_goes_its_own_way(echo: httpx2.AsyncClient) -> None:
    sid = await begin(echo, "echo")
    _, first = await say(echo, sid, "one")
    await say(echo, sid, "two")
    made = await echo.post(f"/sessions/{sid}/fork", json={"position": first})
    assert made.status_code == 201, made.text
    fork = made.json()["id"]
    assert (made.json()["position"], made.json()["round"], made.json()["status"]) == (first, 1, "completed")

    def plain(told: list[dict[str, object]]) -> list[dict[str, object]]:
        return [{**one, "session_id": ""} for one in without_origin(told)]

    assert plain(await events(echo, fork)) == plain((await events(echo, sid))[:first])
    assert (await say(echo, fork, "three"))[0] == "I heard one, three."
    assert (await say(echo, sid, "four"))[0] == "I heard one, two, four."
    for each in (sid, fork):
        assert order_problems(log_of(await events(echo, each))) == []


async def test_a_fork_is_only_made_where_a_run_is_over(echo: httpx2.AsyncClient) -> None:
    sid = await begin(echo, "echo")
    assert (await echo.post(f"/sessions/{sid}/fork")).json()["code"] == "no_run_ended"
    _, first = await say(echo, sid, "one")
    refused = await echo.post(f"/sessions/{sid}/fork", json={"position": first - 1})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_a_run_end")
    assert f"the nearest is {first}" in refused.json()["detail"]
    assert (await echo.post("/sessions/nobody/fork")).status_code == 404
    assert (await echo.post(f"/sessions/{sid}/fork")).json()["position"] == first


@pytest.mark.parametrize("graph", ["echo", "replayed"])
async def test_a_fork_is_forked_in_turn_wherever_a_run_of_it_ended(echo: httpx2.AsyncClient, graph: str) -> None:
    sid = await begin(echo, graph)
    ends = [(await say(echo, sid, text))[1] for text in ("one", "two", "three")]
    fork = (await echo.post(f"/sessions/{sid}/fork")).json()["id"]
    for end, heard in zip(ends, ("one", "one, two", "one, two, three"), strict=True):
        again = (await echo.post(f"/sessions/{fork}/fork", json={"position": end})).json()["id"]
        assert (await say(echo, again, "four"))[0] == f"I heard {heard}, four."


async def test_deleting_either_leaves_the_other(echo: httpx2.AsyncClient) -> None:
    sid = await begin(echo, "echo")
    await say(echo, sid, "one")
    fork = (await echo.post(f"/sessions/{sid}/fork")).json()["id"]
    assert (await echo.delete(f"/sessions/{sid}")).status_code == 204
    assert (await say(echo, fork, "two"))[0] == "I heard one, two."


async def test_nothing_of_what_came_later_is_in_a_fork(echo: httpx2.AsyncClient, tmp_path: Path) -> None:
    sid = await begin(echo, "echo")
    _, first = await say(echo, sid, "one")
    await say(echo, sid, f"what-only-the-first-session-heard {'x' * 300}")
    await echo.post(f"/sessions/{sid}/fork", json={"position": first})
    assert (await echo.delete(f"/sessions/{sid}")).status_code == 204

    def is_left() -> bool:
        return any(b"what-only-the-first" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    await eventually(lambda: not is_left(), within=20, what="it is still in a file")


async def test_an_answer_is_given_anew_as_if_the_last_had_not_been(echo: httpx2.AsyncClient) -> None:
    sid = await begin(echo, "echo")
    for text, heard in (("one", "I heard one."), ("two", "I heard one, two.")):
        assert (await say(echo, sid, text))[0] == heard
        for _ in range(2):
            assert await regenerate(echo, sid) == heard
    told = await events(echo, sid)
    assert order_problems(log_of(told)) == []
    starts = [e["payload"] for e in told if e["type"] == "run_start"]
    assert [s["trigger"] for s in starts] == ["message", "regenerate", "regenerate"] * 2
    runs = [e["run_id"] for e in told if e["type"] == "run_start"]
    assert [s.get("replaces") for s in starts] == [None, *runs[:2], None, *runs[3:5]]
    assert (await say(echo, sid, "three"))[0] == "I heard one, two, three."


async def test_what_a_session_began_with_is_there_again_too(echo: httpx2.AsyncClient) -> None:
    said = [
        {"role": "user", "content": "before"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "now"},
    ]
    answer = await echo.post("/stream-test", json={"agent_system_id": "echo", "messages": said})
    sid = answer.headers["Stellwerk-Session"]
    for _ in range(3):
        assert await regenerate(echo, sid) == "I heard before, now."


async def test_there_must_be_something_to_give_anew(echo: httpx2.AsyncClient) -> None:
    sid = await begin(echo, "echo")
    refused = await echo.post(f"/sessions/{sid}/regenerate")
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing_said")
    await say(echo, sid, "one")
    fork = (await echo.post(f"/sessions/{sid}/fork")).json()["id"]
    assert (await echo.post(f"/sessions/{fork}/regenerate")).status_code == 409


async def test_a_message_that_was_only_enqueued_there_is_not_said_in_a_fork(tmp_path: Path) -> None:
    async with running_server(Settings(data=tmp_path)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            sid = await begin(client)
            await send(client, sid, "ask")
            await rest_of_run(client, sid)
            for text in ("weather", "table"):
                assert (await send(client, sid, text, if_busy="enqueue"))["status"] == "enqueued"
            await rest_of_run(client, sid, (await answer(client, sid, text="blue"))["after"])
            await eventually(lambda: completed(client, sid, 3), within=60, what="what was enqueued is not answered")
            ends = [e["position"] for e in await events(client, sid) if e["type"] == "run_end"]
            said = [await asked_in(client, await forked(client, sid, end)) for end in ends[1:]]
            told = await events(client, await forked(client, sid, ends[1]))
    assert said == [["ask"], ["ask", "weather"], ["ask", "weather", "table"]]
    assert order_problems(log_of(told)) == []


async def completed(client: httpx2.AsyncClient, sid: str, runs: int) -> bool:
    ends = [e["payload"]["status"] for e in await events(client, sid) if e["type"] == "run_end"]
    return ends.count("completed") == runs


async def forked(client: httpx2.AsyncClient, sid: str, position: int) -> str:
    made = await client.post(f"/sessions/{sid}/fork", json={"position": position})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def asked_in(client: httpx2.AsyncClient, sid: str) -> list[str]:
    entries = (await client.get(f"/sessions/{sid}/messages")).json()["messages"]
    return [each["text"] for each in entries if each["kind"] == "message" and each["role"] == "user"]


READER = """
version: 1
system: {name: reader}
agents:
  - id: clerk
    approvals_after_reading: [write]
    tools: {allow: [list_documents, save_document]}
    model:
      script:
        - {when: look, steps: [{call: list_documents}, {say: nothing there}]}
        - steps: [{call: save_document, args: {name: a.md, content: hello}}, {say: saved}]
"""


async def test_what_was_read_before_a_fork_counts_in_it_and_what_came_later_does_not(echo: httpx2.AsyncClient) -> None:
    registered = await echo.post("/agent-systems", content=READER, headers={"content-type": "application/yaml"})
    assert registered.status_code == 201, registered.text
    sid = await begin(echo, "reader")
    answers = [await say(echo, sid, text) for text in ("save it", "look")]
    assert [text for text, _ in answers] == ["saved", "nothing there"]
    for (_, position), status in zip(answers, ("completed", "awaiting_user"), strict=True):
        fork = (await echo.post(f"/sessions/{sid}/fork", json={"position": position})).json()["id"]
        told = await rest_of_run(echo, fork, (await send(echo, fork, "save it"))["after"])
        assert told[-1]["payload"]["status"] == status
