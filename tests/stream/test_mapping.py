"""Every row of the event mapping table, from every source: the same envelope, with the fields that the row demands."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from stellwerk.agents.runtime.callback_handler import RunCallbackHandler
from stellwerk.envelope.model import Envelope, SubgraphCheckpoint, encode, type_of
from stellwerk.envelope.payloads import Checkpointed
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.facts import Fact
from tests.recordings.readers import facts_of_events, facts_of_parts
from tests.samples import SteadyClock, place, run_start
from tests.stream.mapping_rows import Row, rows

ROWS = {row.name: row for row in rows()}
SOURCES = ("live", "parts", "events")


async def facts(row: Row, source: str) -> list[Fact]:
    match source:
        case "live":
            told: list[Fact] = []
            row.live(RunCallbackHandler(told.append, SteadyClock()), told.append)
            return told
        case "parts":
            return list(facts_of_parts(row.parts, agent="boss"))
        case _:
            return list(facts_of_events(row.events, agent="boss"))


def history() -> list[Envelope]:
    """An earlier run of the trace, up to its last checkpoint."""
    saved = Checkpointed(checkpoint_id="c0", node="tools", state_digest="d0")
    return [run_start(), SubgraphCheckpoint(**place("run", 2, parent=None), payload=saved)]


def told(given: Iterable[Fact], *, goes_on: bool) -> list[Envelope]:
    adapter = StreamAdapter(trace_id="trace", run_id="run-2", agent="boss")
    if goes_on:
        adapter.seed(history())
    return [envelope for fact in given for envelope in adapter.feed(fact)]


@pytest.mark.requirement("002.adapter.unit-tests-of-framework-payloads")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("on_chain_start", marks=pytest.mark.requirement("002.mapping.chain-start")),
        "on_chain_end",
        pytest.param("on_chat_model_start", marks=pytest.mark.requirement("002.mapping.chat-model-start")),
        pytest.param("on_chat_model_stream", marks=pytest.mark.requirement("002.mapping.chat-model-stream")),
        pytest.param("on_chat_model_end", marks=pytest.mark.requirement("002.mapping.chat-model-end")),
        pytest.param("on_tool_start", marks=pytest.mark.requirement("002.mapping.tool-start")),
        pytest.param("on_tool_end", marks=pytest.mark.requirement("002.mapping.tool-end")),
        pytest.param("checkpoint persisted", marks=pytest.mark.requirement("002.mapping.checkpoint-persisted")),
        pytest.param("checkpoint resume", marks=pytest.mark.requirement("002.mapping.checkpoint-resume")),
        pytest.param("on_chain_error", marks=pytest.mark.requirement("002.mapping.chain-error")),
        pytest.param("on_tool_error", marks=pytest.mark.requirement("002.mapping.tool-error")),
    ],
)
async def test_a_row_of_the_table_holds_from_every_source(source: str, name: str) -> None:
    if (source, name) == ("events", "checkpoint persisted"):
        return  # events know nothing of checkpoints
    row = ROWS[name]
    found = [e for e in told(await facts(row, source), goes_on=row.goes_on) if type_of(e) == row.type]
    assert found, f"no {row.type}"
    payload: dict[str, Any] = json.loads(encode(found[-1]))["payload"]
    for name, value in row.says.items():
        assert payload[name] == value if value is not ... else payload[name]


@pytest.mark.parametrize("row", ROWS.values(), ids=str)
async def test_no_envelope_has_a_stack_trace(row: Row) -> None:
    for envelope in told(await facts(row, "live"), goes_on=row.goes_on):
        assert b"stack" not in encode(envelope)
        assert b"Traceback" not in encode(envelope)


@pytest.mark.requirement("002.ids.subgraph-has-call-id", "002.ids.nested-tools-inherit-parent")
@pytest.mark.requirement("002.completion.authoritative-end")
@pytest.mark.parametrize("source", SOURCES)
async def test_a_graph_has_a_call_of_its_own_from_every_source(source: str) -> None:
    row = ROWS["on_chain_end"]
    start, end = [e for e in told(await facts(row, source), goes_on=False) if type_of(e) in ("tool_start", "tool_end")]
    assert start.call_id == end.call_id
    assert (start.parent_id, end.parent_id) == ("run-2", "run-2")
