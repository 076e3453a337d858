"""What comes between the server and its readers: hostile cursors and parameters, other people's middleware."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware

import stellwerk
from stellwerk.api.http.server import listener
from stellwerk.settings import Settings
from tests.api.reading import parse_sse, whole_round
from tests.crash.wire import NDJSON, SSE
from tests.faults.conftest import FaultServer
from tests.runs.talking import begin, events, send

ROOT = Path(__file__).parents[2]
GARBAGE = ("abc", "-1", "1e3", "1 2", "9" * 17, "x" * 10_000, "1\tx", "٣", "0x1", "")
INJECTIONS = ("x') OR '1'='1", "1; DROP TABLE event; --", "' UNION SELECT body FROM event --", '$."id"')


@pytest.mark.requirement("fault-08")
async def test_a_cursor_that_is_none_is_refused_on_every_way_to_read(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "faulty")
    paths = ("stream", "stream?dialect=chunks", "events", "messages")
    urls = [httpx2.URL(f"/sessions/{sid}/{path}") for path in paths]
    for garbage in GARBAGE:
        asked = [client.get(f"/sessions/{sid}/stream", headers={b"Last-Event-ID": garbage.encode()})]
        asked += [client.get(url.copy_merge_params({"after": garbage})) for url in urls]
        for answer in await asyncio.gather(*asked):
            assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor"), (garbage, answer.url)


@pytest.mark.requirement("fault-08")
async def test_a_cursor_beyond_the_head_waits_until_the_log_is_that_long(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "faulty")
    path = f"/sessions/{sid}/stream?profile=debug"
    far = {"Last-Event-ID": "99999999999"}
    async with client.stream("GET", path, headers=far) as patient:
        assert patient.status_code == 200
        reading = asyncio.create_task(first_event(client, path, "5"))
        await whole_round(client, sid, "hello")
        assert (await reading)["position"] == 6
        refused = await client.get(f"/sessions/{sid}/events", params={"after": "99999999999"})
        assert refused.json() == {"events": [], "next": 99999999999}


async def first_event(client: httpx2.AsyncClient, path: str, last: str) -> dict[str, object]:
    text = ""
    async with asyncio.timeout(60), client.stream("GET", path, headers={"Last-Event-ID": last}) as answer:
        async for piece in answer.aiter_text():
            text += piece
            if found := parse_sse(text[: text.rfind("\n\n") + 2]):
                return found[0]
    raise AssertionError("the stream ended")


@pytest.mark.requirement("fault-60")
async def test_nothing_that_a_request_says_becomes_sql(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "faulty")
    await whole_round(client, sid, "hello")
    before, known = await events(client, sid), {sid}
    for words in INJECTIONS:
        other = await begin(client, "faulty")
        known.add(other)
        await say_everywhere(client, other, words, known)
        assert await events(client, sid) == before, words


async def say_everywhere(client: httpx2.AsyncClient, other: str, words: str, known: set[str]) -> None:
    for path in ("events", "messages", "stream"):
        for name in ("after", "limit", "until", "profile", "wait", "dialect"):
            answer = await client.get(
                f"/sessions/{other}/{path}", params={"after": "0", "until": "run_end", name: words}
            )
            assert answer.status_code in (200, 400, 422), (path, name)
            assert "You said" not in answer.text
    quoted = httpx2.URL("http://x").join(words.replace("/", "")).path.strip("/")
    for path in ("/sessions/{}", "/sessions/{}/events", "/sessions/{}/state", "/files/{}", "/tools/{}"):
        assert (await client.get(path.format(quoted))).status_code == 404
    listed = (await client.get("/sessions")).json()["sessions"]
    assert {session["id"] for session in listed} <= known
    assert (await client.get("/sessions", params={"before": words})).status_code == 422
    assert (await client.post(f"/sessions/{other}/answers", json={"ask_id": words, "text": "x"})).status_code == 409
    key = {"Idempotency-Key": words}
    sent = [await client.post(f"/sessions/{other}/messages", json={"text": words}, headers=key) for _ in range(2)]
    assert sent[0].json() == sent[1].json()


@pytest.mark.requirement("fault-12")
def test_no_middleware_of_ours_stands_between_a_stream_and_its_reader(tmp_path: Path) -> None:
    app = stellwerk.create_app(Settings(data=tmp_path))
    kinds = [middleware.cls for middleware in app.user_middleware]
    assert kinds, "the guard is one"
    assert not [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseHTTPMiddleware)]


async def test_the_last_bytes_of_an_answer_wait_for_no_acknowledgement() -> None:
    """Nagle's algorithm would hold them back for 40 ms, on connections that are kept."""
    seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        seen.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with listener("127.0.0.1", 0) as made:
        async with await asyncio.start_server(accepted, sock=made):
            _, writer = await asyncio.open_connection(*made.getsockname())
            assert await asyncio.wait_for(seen, 60)
            writer.close()


@asynccontextmanager
async def behind_gzip(faulty: FaultServer) -> AsyncIterator[httpx2.AsyncClient]:
    """The server, mounted in an app that compresses everything."""
    agents = stellwerk.create_app(Settings(data=faulty.data, config=faulty.config), own={"faulty": str(faulty.system)})
    host = FastAPI()
    host.mount("/agents", agents)
    host.add_middleware(GZipMiddleware, minimum_size=1)
    with listener("127.0.0.1", 0) as made:
        async with stellwerk.opened(agents):
            server = uvicorn.Server(uvicorn.Config(host, log_level="warning", lifespan="off"))
            serving = asyncio.create_task(server.serve(sockets=[made]))
            address = f"http://127.0.0.1:{made.getsockname()[1]}/agents"
            try:
                async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
                    yield client
            finally:
                faulty.open_gate()
                server.should_exit = True
                await serving


@pytest.mark.requirement("fault-14")
@pytest.mark.parametrize(
    "form, query, last",
    [
        (SSE, "", '"type":"tool_start"'),
        (NDJSON, "", '"type":"tool_start"'),
        (NDJSON, "dialect=chunks", "CALLING TOOL: hold"),
    ],
)
async def test_a_compressing_middleware_holds_no_event_back(
    faulty: FaultServer, form: str, query: str, last: str
) -> None:
    async with behind_gzip(faulty) as client:
        listing = await client.get("/tools")
        assert listing.headers["content-encoding"] == "gzip", "it does compress"
        sid = await begin(client, "faulty")
        await send(client, sid, "hold")
        got, headers = "", {"Accept": form, "Accept-Encoding": "gzip"}
        async with (
            asyncio.timeout(60),
            client.stream("GET", f"/sessions/{sid}/stream?{query}", headers=headers) as told,
        ):
            assert told.headers["cache-control"] == "no-cache, no-transform"
            assert told.headers["x-accel-buffering"] == "no"
            async for piece in told.aiter_text():
                got += piece
                if last in got:  # the tool has begun, and does not end before we have read that
                    break
        assert not (faulty.folder / "gate").exists()


@pytest.mark.requirement("fault-29")
def test_a_task_that_nobody_holds_is_a_lint_error() -> None:
    forgotten = "import asyncio\n\n\nasync def main() -> None:\n    asyncio.create_task(asyncio.sleep(1))\n"
    command = [sys.executable, "-m", "ruff", "check", "--output-format=json", "--stdin-filename", "src/stellwerk/x.py"]
    found = subprocess.run([*command, "-"], input=forgotten, capture_output=True, text=True, cwd=ROOT, check=False)
    assert [problem["code"] for problem in json.loads(found.stdout)] == ["RUF006"]
