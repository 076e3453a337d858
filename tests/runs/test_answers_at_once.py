"""A question is in the log together with the end of its run: it can be answered the moment it is seen."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import Event
from tests.conftest import server_beside
from tests.runs.talking import begin, events, log_of, rest_of_run, seen, send, stop

ASKING = Path(__file__).parent / "asking"
TRIES = 8


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with everything that can ask: agents, sub-agents, graphs, workplans."""
    folder = tmp_path_factory.mktemp("asking")
    graphs = {name: f"{ASKING / 'graphs.py'}:{name}" for name in ("asks", "beside", "breaks", "nests", "splits")}
    own = {**graphs, **{name: str(ASKING / f"{name}.yaml") for name in ("desk", "plan")}}
    config = folder / "operator.yaml"
    config.write_text(f"tools: ['{ASKING / 'tools.py'}:tools']\n")
    with server_beside(Settings(data=folder / "data", config=config), own=own) as found:
        yield found


@dataclass(frozen=True)
class Asking:
    system: str
    text: str
    questions: int = 1
    answer: Any = "yes"


KINDS = {
    "a tool asks": Asking("desk", "ask"),
    "a tool asks for approval": Asking("desk", "pay", answer={"type": "approve"}),
    "two tools ask": Asking("desk", "both", 2),
    "a sub-agent asks": Asking("desk", "delegate"),
    "a graph asks": Asking("asks", "go"),
    "a breakpoint asks": Asking("breaks", "go"),
    "a graph in a graph asks": Asking("nests", "go"),
    "two branches ask": Asking("splits", "go", 2),
    "a workplan asks": Asking("plan", "go"),
}


async def answered_at_sight(client: httpx2.AsyncClient, asking: Asking) -> list[int]:
    """The status of each answer that was sent the moment its question came by."""
    sid = await begin(client, asking.system)
    await send(client, sid, asking.text)
    codes: list[int] = []
    async with asyncio.timeout(60), client.stream("GET", f"/sessions/{sid}/stream") as stream:
        async for line in stream.aiter_lines():
            if not line.startswith("data: "):
                continue
            event: Event = json.loads(line.removeprefix("data: "))
            if event["type"] == "ask_user":
                codes.append(await answer(client, sid, event, asking.answer))
            is_over = event["type"] == "run_end" and event["payload"]["status"] != "awaiting_user"
            if is_over or 409 in codes:
                break
    assert order_problems(log_of(await events(client, sid))) == []
    return codes


async def answer(client: httpx2.AsyncClient, sid: str, event: Event, given: Any) -> int:
    form = {"text": given} if isinstance(given, str) else {"data": given}
    sent = await client.post(f"/sessions/{sid}/answers", json={"ask_id": event["payload"]["ask_id"], **form})
    return sent.status_code


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_is_sent_at_the_sight_of_its_question_is_taken(
    client: httpx2.AsyncClient, kind: str
) -> None:
    tries = await asyncio.gather(*(answered_at_sight(client, KINDS[kind]) for _ in range(TRIES)))
    assert tries == [[202] * KINDS[kind].questions] * TRIES


async def test_what_runs_beside_a_question_is_shown_while_the_question_waits_for_the_end_of_the_run(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    sid, gate = await begin(client, "beside"), tmp_path / "gate"
    await send(client, sid, str(gate))
    await seen(client, sid, "log")  # both branches have begun: the other has asked, or does so before it is heard
    assert "ask_user" not in [e["type"] for e in await events(client, sid)]
    early = await client.post(f"/sessions/{sid}/answers", json={"text": "left"})
    assert (early.status_code, early.json()["code"]) == (409, "nothing_asked")
    gate.touch()
    told = await rest_of_run(client, sid)
    assert [e["type"] for e in told[-2:]] == ["ask_user", "run_end"]
    assert told[-1]["payload"]["status"] == "awaiting_user"
    assert (await client.post(f"/sessions/{sid}/answers", json={"text": "left"})).status_code == 202


@pytest.mark.parametrize("ending", ["failed", "stopped"])
async def test_a_run_that_ends_otherwise_has_asked_nothing(
    client: httpx2.AsyncClient, tmp_path: Path, ending: str
) -> None:
    sid, gate = await begin(client, "beside"), tmp_path / "gate"
    await send(client, sid, str(gate))
    await seen(client, sid, "log")
    if ending == "stopped":
        await stop(client, sid)
    gate.write_text("fail")
    told = await rest_of_run(client, sid)
    assert told[-1]["payload"]["status"] == ending
    assert "ask_user" not in [e["type"] for e in told]
    assert (await client.get(f"/sessions/{sid}/state")).json()["questions"] == []
    assert order_problems(log_of(await events(client, sid))) == []
