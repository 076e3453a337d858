"""Isolation on routes of plug-ins, which the OpenAPI document lacks: foreign ids are answered like unknown ones."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from fastapi import FastAPI, routing
from starlette.routing import WebSocketRoute
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

import stellwerk
from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests.api.tenants import Shared, shared_server
from tests.conftest import without_pauses
from tests.protocols.isolation import EXAMPLES, IDS, NATIVE, STAYS_OPEN, Example

Ids = Mapping[str, str]
CANARY = "canary-of-acme"
SYSTEM = "{version: 1, system: {name: secretive}, agents: [{id: one, mission: m}]}"
TABLE = "tests/protocols/isolation.py"
UNKNOWN = {
    "run_id": "0" * 22,
    "trace_id": "0" * 22,
    "message_id": "0" * 22,
    "ask_id": "ask_none",
    "document_id": "0" * 64,
    "checkpoint_id": "00000000-0000-6000-8000-000000000000",
    "system_id": "unheard-of",
}
_PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")
_numbers = count(1)


async def operations(folder: Path, parts: Parts) -> set[str]:
    """All routes of a server, as ``POST /path``; WS and MOUNT in the place of a method."""
    app = stellwerk.create_app(Settings(data=folder), parts=parts)
    async with stellwerk.opened(app):
        return set(_operations(app))


def _operations(app: FastAPI) -> Iterator[str]:
    flat: Any = getattr(routing, "iter_route_contexts", list)  # in older versions no router is inside another
    for route in flat(app.routes):
        kind = "WS" if isinstance(getattr(route, "original_route", route), WebSocketRoute) else "MOUNT"
        for method in (getattr(route, "methods", None) or {kind}) - {"HEAD"}:
            yield f"{method} {route.path}"


async def routes_of_plugins(folder: Path, published: Mapping[str, Any]) -> set[str]:
    found = await operations(folder / "all", Parts())
    native = await operations(folder / "native", Parts(plugins=list))
    described = {f"{method.upper()} {path}" for path, methods in published["paths"].items() for method in methods}
    return found - native - described


def lacking(found: set[str]) -> list[str]:
    """What the table does not have of these routes."""
    sent = [each for each in found if each.startswith(("POST ", "PUT ", "PATCH "))]
    mounted = [each.split()[1] for each in found if each.startswith("MOUNT ")]
    without = [path for path in mounted if not any(each.split()[1].startswith(path) for each in EXAMPLES)]
    names = {name for each in found for name in _PARAMETER.findall(each)} - IDS.keys() - set(NATIVE)
    return sorted([*(each for each in sent if each not in EXAMPLES), *without, *names])


@dataclass
class Walk:
    """Requests of one tenant, with ids of another and with ids of nobody."""

    shared: Shared
    client: httpx2.AsyncClient
    foreign: Ids
    opened: list["asyncio.Task[bytes]"]
    positions: dict[str, int]
    """Where the logs of acme's sessions end."""

    async def all_of(self, operation: str) -> None:
        for example in EXAMPLES.get(operation, [Example()]):
            used = set(_PARAMETER.findall(operation + msgspec.json.encode(example).decode()))
            systems = {name for name in used if IDS.get(name, f"{{{name}}}") == "{system_id}"}
            nobody = {**UNKNOWN, "sid": f"{next(_numbers):022}"}
            if used - systems:  # a session of its own: what is begun under an id is found by later requests
                there = {**self.foreign, "sid": await self.fork(), "system_id": "demo"}
                await self.both(operation, example, there, {**nobody, "system_id": "demo"})
            if systems:
                await self.both(operation, example, {**nobody, "system_id": "secretive"}, nobody)

    async def fork(self) -> str:
        forked = await self.shared.acme.post(f"/sessions/{self.foreign['sid']}/fork")
        assert forked.status_code == 201, forked.text
        self.positions[forked.json()["id"]] = forked.json()["position"]
        return str(forked.json()["id"])

    async def both(self, operation: str, example: Example, there: Ids, nowhere: Ids) -> None:
        foreign, unknown = [await self.answer(operation, example, ids) for ids in (there, nowhere)]
        assert foreign[0] == unknown[0], (operation, example, foreign, unknown)
        assert CANARY not in foreign[1], (operation, example)
        if foreign[0][0] >= 400:
            assert foreign == unknown, (operation, example)

    async def answer(self, operation: str, example: Example, ids: Ids) -> tuple[tuple[int, str | None], str]:
        given = {**ids, **{name: filled(pattern, ids) for name, pattern in IDS.items()}}
        method, path = (filled(part, given) for part in operation.split())
        if method == "WS":
            return await self.handshake(path, given)
        sent = {"params": filled(example.query, given), "headers": filled(example.headers, given)}
        body = filled(example.body, given)
        request = self.client.build_request(method, path, json=body, **sent)
        answer = await self.client.send(request, stream=operation in STAYS_OPEN)
        head = answer.status_code, answer.headers.get("content-type")
        if operation in STAYS_OPEN and answer.status_code < 400:
            self.opened.append(asyncio.create_task(everything(answer)))
            return head, ""
        return head, anonymous((await answer.aread()).decode(), given)

    async def handshake(self, path: str, ids: Ids) -> tuple[tuple[int, str | None], str]:
        key = {"Authorization": self.client.headers["authorization"]}
        try:
            async with connect(f"ws{self.shared.address[4:]}{path}", additional_headers=key):
                return (101, None), ""
        except InvalidStatus as refused:
            body = refused.response.body or b""
            return (refused.response.status_code, None), anonymous(body.decode(), ids)


async def everything(answer: httpx2.Response) -> bytes:
    got = b""
    with suppress(httpx2.HTTPError):  # it is cut off at the end
        async for piece in answer.aiter_bytes():
            got += piece
    return got


def filled(form: Any, ids: Ids) -> Any:
    """The form with these ids in place of the names in braces."""
    if isinstance(form, Mapping):
        return {name: filled(inner, ids) for name, inner in form.items()}
    if isinstance(form, list):
        return [filled(inner, ids) for inner in form]
    return _PARAMETER.sub(lambda found: ids[found[1]], form) if isinstance(form, str) else form


def anonymous(text: str, ids: Ids) -> str:
    for value in sorted(ids.values(), key=len, reverse=True):
        text = text.replace(value, "X")
    return text


async def furnished(shared: Shared) -> Ids:
    """What acme has: a session with a question, of a run with files."""
    acme = shared.acme
    await acme.post("/agent-systems", content=SYSTEM, headers={"Content-Type": "application/yaml"})
    file = (await acme.post("/files", files={"file": ("a.txt", CANARY.encode())})).json()["id"]
    sid = (await acme.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
    for text in ("weather", "ask"):
        body = {"text": f"{text} {CANARY}", "documents": [file]}
        accepted = (await acme.post(f"/sessions/{sid}/messages", json=body)).json()
        await acme.get(f"/sessions/{sid}/stream", params={"until": "run_end", "after": accepted["after"]})
    state = (await acme.get(f"/sessions/{sid}/state")).json()
    log = (await acme.get(f"/sessions/{sid}/events", params={"profile": "debug"})).json()["events"]
    checkpoint = next(each["payload"]["checkpoint_id"] for each in log if each["type"] == "subgraph_checkpoint")
    message = next(each["payload"]["message_id"] for each in log if each["type"] == "message")
    last = log[-1]
    made = {"sid": sid, "run_id": last["run_id"], "trace_id": last["trace_id"], "message_id": message}
    made["checkpoint_id"] = checkpoint
    return {**made, "ask_id": state["questions"][0]["ask_id"], "document_id": file, "system_id": "secretive"}


@pytest.fixture
async def stranger() -> AsyncIterator[httpx2.AsyncClient]:
    """It outlives the server, to read what was sent until its end."""
    async with httpx2.AsyncClient(timeout=60) as made:
        yield made


async def held(acme: httpx2.AsyncClient) -> dict[str, int]:
    found = (await acme.get("/sessions", params={"limit": 100})).json()["sessions"]
    return {each["id"]: each["position"] for each in found}


async def test_a_foreign_id_is_answered_like_an_unknown_one_on_every_route_of_a_plugin(
    tmp_path: Path, stranger: httpx2.AsyncClient
) -> None:
    parts, opened = Parts(demo_systems=without_pauses), list["asyncio.Task[bytes]"]()
    async with shared_server(tmp_path / "data", parts=parts, demo=True) as shared:
        published = (await shared.operator.get("/openapi.json")).json()
        found = await routes_of_plugins(tmp_path, published)
        assert not (missing := lacking(found)), f"{TABLE} has no ids or examples for: {', '.join(missing)}"
        mine = await furnished(shared)
        assert mine.keys() == UNKNOWN.keys() | {"sid"} == set(NATIVE)
        stranger.base_url = shared.address
        stranger.headers.update({"Authorization": shared.other.headers["authorization"]})
        walk = Walk(shared, stranger, mine, opened, await held(shared.acme))
        for operation in sorted({each for each in found if not each.startswith("MOUNT ")} | EXAMPLES.keys()):
            await walk.all_of(operation)
        assert await held(shared.acme) == walk.positions
    assert all(CANARY.encode() not in got for got in await asyncio.gather(*opened))


def test_the_table_must_have_every_route_and_parameter() -> None:
    found = {"POST /their/{thing}", "GET /their/{chat_id}", "MOUNT /theirs", *EXAMPLES}
    assert lacking(found) == ["/theirs", "POST /their/{thing}", "thing"]
