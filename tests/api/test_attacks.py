"""What a hostile client or network tries: each attempt gets an answer that gives nothing away, and changes nothing.

What pages try is in ``test_cors.py``. Uploads are attacked in ``tests/documents``, descriptions of agent systems
in ``tests/spec``, ids in ``test_isolation.py``.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from stellwerk.timings import Timings
from tests.api.documented import examples, operations
from tests.api.tenants import shared_server
from tests.conftest import running_server, server_beside

JSON = {"Content-Type": "application/json"}
BEGIN = {"agent_system_id": "demo"}


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


async def raw(address: str, request: bytes) -> bytes:
    """The answer to bytes as they are, up to the end of the connection; what it cuts off may be lost."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
    answer = b""
    with suppress(ConnectionError):
        writer.write(request)
        async with asyncio.timeout(60):
            while piece := await reader.read(65536):
                answer += piece
    writer.close()
    return answer


HOSTS = [
    b"",
    b"Host: evil.test\r\n",
    b"Host: 127.0.0.1\r\nHost: evil.test\r\n",
    b"Host: 127.0.0.1, evil.test\r\n",
    b"Host: 127.0.0.1/sessions?x=\r\n",
    b"Host: evil.test#127.0.0.1\r\n",
    b"Host: evil.test\\@127.0.0.1\r\n",
    b"Host: 127.0.0.1:80:80\r\n",
    b"Host: 127.0.0.1:8000x\r\n",
    b"Host: localhost.evil.test\r\n",
    b"Host: 0.0.0.0\r\n",
    b"Host: 2130706433\r\n",
    b"Host: 0x7f.1\r\n",
    b"Host: [::ffff:127.0.0.1]\r\n",
    b"Host: \xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1\r\n",
    b"Host: 127.0.0.1\x00.evil.test\r\n",
    b"Host : 127.0.0.1\r\nHost: evil.test\r\n",
    b"Host: 127.0.0.1\n evil.test\r\n",
    b"X-Forwarded-Host: 127.0.0.1\r\nHost: evil.test\r\n",
]


@pytest.mark.parametrize("host", HOSTS, ids=str)
async def test_a_host_that_is_not_ours_reaches_nothing(address: str, host: bytes) -> None:
    answer = await raw(address, b"GET /sessions HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n")
    assert answer.split(b" ")[1] in (b"400", b"403"), answer
    assert b'"sessions"' not in answer


LYING = {
    "two lengths": b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n[][]",
    "a length and pieces": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a negative length": b"Content-Length: -1\r\n\r\n[]",
    "a length with a sign": b"Content-Length: +2\r\n\r\n[]",
    "a length in hexadecimal": b"Content-Length: 0x2\r\n\r\n[]",
    "a length beyond all numbers": b"Content-Length: " + b"9" * 40 + b"\r\n\r\n[]",
    "pieces of another kind": b"Transfer-Encoding: xchunked\r\n\r\n[]",
    "a piece of no length": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n[]\r\n0\r\n\r\n",
    "a header over two lines": b"X-A: b\r\n c: d\r\nContent-Length: x\r\n\r\n[]",
}


@pytest.mark.parametrize("rest", LYING.values(), ids=LYING)
async def test_a_request_that_can_be_read_in_two_ways_is_refused_and_its_connection_closed(
    address: str, rest: bytes
) -> None:
    head = b"POST /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    answer = await raw(address, head + rest + b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert answer.split(b" ")[1] in (b"400", b"413"), answer
    assert answer.count(b"HTTP/1.1 ") == 1, "what follows was taken for a request"


MILLION = 10**6
DEEP = {
    "brackets": b"[" * MILLION,
    "braces": b'{"a":' * (MILLION // 5),
    "brackets in a field": b'{"agent_system_id":' + b"[" * (MILLION // 2) + b"]" * (MILLION // 2 - 20) + b"}",
    "digits": b'{"agent_system_id":' + b"9" * (MILLION - 20) + b"}",
    "a number beyond all numbers": b'{"agent_system_id":1e999999999}',
    "names": b"{" + b",".join(b'"%d":0' % n for n in range(100_000)) + b"}",
    "the same name": b"{" + b",".join([b'"agent_system_id":"x"'] * 40_000) + b"}",
    "no JSON": b'{"agent_system_id":NaN}',
}


@pytest.mark.parametrize("body", DEEP.values(), ids=DEEP)
async def test_a_body_that_is_dear_to_read_is_refused(client: httpx2.AsyncClient, body: bytes) -> None:
    answer = await client.post("/sessions", content=body, headers=JSON)
    assert answer.status_code in (400, 404, 422), answer.text
    assert len(answer.content) < 2000


async def test_headers_have_a_limit_whether_they_end_or_not(client: httpx2.AsyncClient, address: str) -> None:
    refused = await client.get("/sessions", headers={"X-Long": "x" * 70_000})
    assert (refused.status_code, refused.json()["code"]) == (431, "headers_too_large")
    both = await client.get("/sessions", params={"before": "x" * 40_000}, headers={"X-Long": "x" * 40_000})
    assert both.status_code == 431
    many = b"".join(b"X-%d: y\r\n" % n for n in range(100_000))
    for endless in (b"X-Long: " + b"x" * 300_000, many, b"x" * 300_000):
        answer = await raw(address, b"GET /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\n" + endless)
        assert not answer or answer.split(b" ")[1] in (b"400", b"431"), answer


SLOW = {
    "nothing at all": (b"", b""),
    "half a line": (b"GET /sess", b"408"),
    "headers that do not end": (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: b\r\n", b"408"),
    "no body": (b"POST /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n", b"408"),
    "half a body": (b"POST /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{", b"408"),
    "half a body in pieces": (
        b"POST /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"408",
    ),
    "half a file": (
        b"POST /files HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n",
        b"408",
    ),
    "a second request that does not end": (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /", b"200"),
}


@pytest.fixture(scope="module")
def impatient_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    parts = Parts(timings=Timings(request_headers=0.2, request_body=0.2))
    with server_beside(Settings(data=tmp_path_factory.mktemp("impatient")), parts=parts) as found:
        yield found


@pytest.mark.parametrize("said, status", SLOW.values(), ids=SLOW)
async def test_a_client_that_sends_no_complete_request_is_disconnected(
    impatient_address: str, said: bytes, status: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = await raw(impatient_address, said)  # to the end of the connection: it was closed for us
    assert [*answer.split(b" ", 2), b"", b""][1] == status, answer
    assert "request_failed" not in "".join(capfd.readouterr())


async def test_an_idle_connection_is_closed_but_not_before_a_proxy_would_close_it(
    tmp_path: Path,
) -> None:
    """If the server closes first, a request on its way is lost: nginx closes after 60 seconds, httpx after 5."""
    assert Timings().keep_alive > 60
    parts = Parts(timings=Timings(keep_alive=0))
    async with running_server(Settings(data=tmp_path), parts=parts) as address:
        answer = await raw(address, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")  # to the connection's end
    assert answer.startswith(b"HTTP/1.1 200")


async def test_a_client_that_sends_slowly_and_steadily_is_served(tmp_path: Path) -> None:
    """Its time is over at once; but what has come buys more than this test takes."""
    parts = Parts(timings=Timings(request_body=0.0, body_pace=1))
    body = json.dumps(BEGIN).encode() + b" " * 1000
    head = b"POST /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    async with running_server(Settings(data=tmp_path), parts=parts) as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-9])
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            assert (await client.get("/healthz")).status_code == 200  # meanwhile its time is checked
        writer.write(body[-9:])
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 201")


SMUGGLED = ("tenant", "tenant_id", "user", "principal", "role", "config", "configurable", "metadata", "thread_id", "id")


async def test_no_body_header_or_query_says_who_asks_or_for_which_thread(
    tmp_path: Path, published: dict[str, Any]
) -> None:
    async with shared_server(tmp_path) as shared:
        theirs = (await shared.other.post("/sessions", json=BEGIN)).json()["id"]
        mine = (await shared.acme.post("/sessions", json=BEGIN)).json()["id"]
        for method, path, described in operations(published):
            media = described.get("requestBody", {}).get("content", {}).get("application/json")
            if not media or path == "/agent-systems":
                continue
            body = next(iter(examples(media).values()))
            unknown = [name for name in SMUGGLED if name not in _properties(published, media["schema"])]
            for names in [[name] for name in unknown] if path == "/sessions" else [unknown]:
                smuggling = {**body, **dict.fromkeys(names, {"thread_id": theirs, "tenant": "other"})}
                answer = await shared.acme.request(method, path.replace("{sid}", mine), json=smuggling)
                assert answer.status_code in (400, 422), (path, names)
                assert answer.json()["field"] in names, (path, names)
        headers = dict.fromkeys(("X-Tenant", "X-Tenant-Id", "X-Forwarded-User", "X-Real-User", "Cookie"), "other")
        for name in SMUGGLED:
            refused = await shared.acme.get("/sessions", params={name: "other"})
            assert (refused.status_code, refused.json()["field"]) == (422, name)
        listed = (await shared.acme.get("/sessions", headers=headers)).json()["sessions"]
        assert [session["id"] for session in listed] == [mine]


def _properties(published: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    for part in [schema, *schema.get("anyOf", ())]:
        if "$ref" in part:
            return list(published["components"]["schemas"][part["$ref"].rpartition("/")[2]]["properties"])
    return list(schema["properties"])


async def test_a_key_in_an_address_opens_nothing_and_no_address_is_written_down(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with shared_server(tmp_path) as shared:
        key = shared.acme.headers["authorization"].removeprefix("Bearer ")
        ticket = (await shared.acme.post("/sessions", json=BEGIN)).json()["id"]
        async with httpx2.AsyncClient(base_url=shared.address) as anybody:
            for name in ("key", "api_key", "token", "access_token", "authorization", "ticket"):
                refused = await anybody.get("/sessions", params={name: key})
                assert refused.status_code == 401
                assert key not in refused.text
            assert (await anybody.get(f"/sessions/{ticket}/stream", params={"ticket": key})).status_code == 401
            assert (await anybody.get("/sessions", headers={"Cookie": f"authorization={key}"})).status_code == 401
            forged = await anybody.get("/sessions/%0a%7b%22level%22%3a%22info%22%7d%1b[31m")
            assert forged.status_code == 401
    written = "".join(capfd.readouterr())
    assert key not in written
    assert "\x1b" not in written
    assert '{"level"' not in written


PATHS = [
    "/files/..%2f..%2f..%2fetc%2fpasswd",
    "/files/%2e%2e/%2e%2e/etc/passwd",
    "/files/..\\..\\etc\\passwd",
    "/files/%00",
    "/files/CON",
    "/files//etc/passwd",
    "/sessions/..%2f..%2fstellwerk.db",
    "/sessions/x/artifacts/..%2f..%2ftodolist.md",
    "/sessions/%E2%80%AEgpj.exe",
    f"/sessions/{'x' * 300}",
    "/static-offline-docs/..%2f..%2f__init__.py",
    "/static-offline-docs/%2e%2e/core.py",
    "/static-offline-docs//etc/passwd",
    "/agent-systems/..%2foperator.yaml",
    "/tools/os:system",
]


@pytest.mark.parametrize("path", PATHS)
async def test_no_path_leads_out_of_what_is_published(address: str, path: str) -> None:
    asked = b"GET " + path.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    answer = await raw(address, asked)
    assert answer.split(b" ")[1] in (b"400", b"404", b"422"), answer
    assert b"root:" not in answer
