"""A server that is asked to end while sub-agents and graphs work for a run: the run pauses at every depth and goes on.

The tools come back when the server asks its runs to pause. So each graph is paused inside: behind what it has
carried, in front of what it will book.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from stellwerk.testing.order import order_problems
from tests.api.reading import Event
from tests.crash.process import ServerProcess, server_process
from tests.crash.waiting import eventually
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, send

RELAY = Path(__file__).parent / "relay"
GRAPHS = ("called", "as_node", "in_tool", "in_tool_twice", "in_tool_late", "slow_node")
PAUSED = {
    "crew one": ["trunk"],
    "crew two": ["left", "right"],
    "crew below": ["chest"],
    "crew ask": ["lamp"],
    "plan": ["table", "chair"],
    "deep": ["map"],
    "called": ["piano"],
    "as_node": ["mirror"],
    "in_tool": ["organ"],
    "in_tool_twice": ["upper bed", "lower bed"],
}
"""By session, named after its system and its message: what is carried while the server is asked to end."""
CUT = {
    "crew slow": "look_up garden",
    "slow_node": "think hard",
    "crew risky": "book_slowly hall",
    "in_tool_late": "paint door",
}
"""What does not come back in time."""
pytestmark = pytest.mark.timeout(1800)


@dataclass
class Relay:
    folder: Path
    data: Path
    sessions: dict[str, str] = field(default_factory=dict)

    told: dict[str, list[Event]] = field(default_factory=dict)
    answered: list[Event] = field(default_factory=list)
    """What came of the answer to the question."""

    @asynccontextmanager
    async def server(self) -> AsyncIterator[tuple[ServerProcess, httpx2.AsyncClient]]:
        systems = [str(self.folder / f"{name}.yaml") for name in ("crew", "plan", "deep")]
        graphs = [f"{name}={self.folder / 'relay.py'}:{name}" for name in GRAPHS]
        config, errors = self.folder / "operator.yaml", self.folder / "errors"
        with server_process(self.data, errors=errors, config=config, serves=[*systems, *graphs]) as server:
            async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
                yield server, client

    def ledger(self) -> list[str]:
        path = self.folder / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    def done(self, *things: str) -> list[str]:
        return [line for line in self.ledger() if line.partition(" ")[2] in things]


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Relay:
    """After two lives of one server, which was asked to end in the first."""
    folder = tmp_path_factory.mktemp("relay")
    shutil.copytree(RELAY, folder / "relay")
    (folder / "relay" / "operator.yaml").write_text("tools: [relay.py:tools]\n")
    made = Relay(folder / "relay", folder / "data")
    asyncio.run(_live(made))
    return made


async def _live(relay: Relay) -> None:
    async with relay.server() as (server, client):
        for name in (*PAUSED, *CUT):
            system, _, text = name.partition(" ")
            relay.sessions[name] = await begin(client, system)
            await send(client, relay.sessions[name], text or "go")
        wanted = {f"carry {what}" for things in PAUSED.values() for what in things}
        wanted |= set(CUT.values())
        await eventually(
            lambda: wanted <= set(relay.ledger()),
            within=120,
            what=lambda: f"not at work: {wanted - set(relay.ledger())}",
        )
        server.stop()
    (relay.folder / "gate").touch()
    async with relay.server() as (_, client):
        for name, sid in relay.sessions.items():
            await rest_of_run(client, sid)
            relay.told[name] = await events(client, sid)
        accepted = await answer(client, relay.sessions["crew ask"], text="left")
        relay.answered = await rest_of_run(client, relay.sessions["crew ask"], accepted["after"])


def ends(told: list[Event]) -> list[tuple[str, str]]:
    return [(e["payload"]["tool_name"], e["payload"]["status"]) for e in told if e["type"] == "tool_end"]


@pytest.mark.requirement("trust.I10", "trust.I14")
@pytest.mark.parametrize("name", [name for name in PAUSED if name != "crew ask"])
def test_a_run_goes_on_after_a_polite_restart_and_completes(relay: Relay, name: str) -> None:
    told = relay.told[name]
    assert told[-1]["payload"]["status"] == "completed", told[-1]
    assert [e["payload"]["attempt"] for e in told if e["type"] == "subgraph_resume"] == [2]
    assert order_problems(log_of(told)) == []


@pytest.mark.requirement("trust.I14")
@pytest.mark.parametrize("name", PAUSED)
def test_nothing_is_done_twice_and_nothing_is_left_out(relay: Relay, name: str) -> None:
    things = [*PAUSED[name], *(["sofa"] if name == "plan" else [])]
    done = relay.done(*things)
    assert sorted(done) == sorted([f"carry {what}" for what in PAUSED[name]] + [f"book {what}" for what in things])


@pytest.mark.requirement("trust.I13")
@pytest.mark.parametrize("name", PAUSED)
def test_a_call_that_was_paused_stays_open_and_ends_once(relay: Relay, name: str) -> None:
    told = relay.told[name]
    assert [e for e in told if e["type"] == "error"] == []
    assert [end for end in ends(told) if end[1] != "ok"] == []
    assert [e for e in told if e["type"] == "tool_start" and "retry_of" in e["payload"]] == []


def test_a_question_beside_a_pause_is_asked_once_and_can_be_answered(relay: Relay) -> None:
    told = relay.told["crew ask"]
    assert told[-1]["payload"]["status"] == "awaiting_user", told[-1]
    assert [e["type"] for e in told].count("ask_user") == 1
    assert relay.answered[-1]["payload"]["status"] == "completed", relay.answered[-1]
    assert order_problems(log_of([*told, *relay.answered])) == []


@pytest.mark.parametrize("name", ["crew slow", "slow_node"])
def test_what_cannot_end_its_step_in_time_is_repeated_if_it_may_be(relay: Relay, name: str) -> None:
    told = relay.told[name]
    assert told[-1]["payload"]["status"] == "completed", told[-1]
    assert relay.ledger().count(CUT[name]) == 2
    assert relay.done("key") == ["book key"]
    assert [e for e in told if e["type"] == "error"] == []
    assert {status for _, status in ends(told)} <= {"ok", "abandoned"}
    assert order_problems(log_of(told)) == []


@pytest.mark.parametrize("name", ["crew risky", "in_tool_late"])
def test_what_cannot_end_its_step_in_time_and_must_not_be_repeated_ends_as_crashed(relay: Relay, name: str) -> None:
    told = relay.told[name]
    assert (told[-1]["payload"]["status"], told[-1]["payload"]["code"]) == ("failed", "crashed")
    assert relay.ledger().count(CUT[name]) == 1
    assert order_problems(log_of(told)) == []


def test_the_log_of_the_server_has_no_error(relay: Relay) -> None:
    said = (relay.folder / "errors").read_text()
    assert "Traceback" not in said
    assert "GraphDrained" not in said
