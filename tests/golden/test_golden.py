"""The golden chain: recordings of real runs, what is stored of them, and what dialects and views make of that.

All of it is compared byte by byte. ``make golden`` writes it anew; the difference is reviewed like code.
"""

import pytest

from stellwerk.envelope.model import LlmStart, RunStart, ToolEnd, ToolStart
from stellwerk.testing.order import order_problems
from tests.golden import files
from tests.golden.chain import to_bytes
from tests.golden.comparison import seen_by, story
from tests.golden.files import BY_NAME, DIALECTS, recorded, stored
from tests.golden.record import record
from tests.golden.turns import Form

each_scenario = pytest.mark.parametrize("name", BY_NAME)
RECORDED = [(name, form) for name, scenario in BY_NAME.items() for form in scenario.forms]


@pytest.mark.parametrize(("name", "form"), RECORDED)
async def test_recording_again_gives_the_same_bytes(name: str, form: Form) -> None:
    """If this fails, the framework speaks in another way than it did; run `make golden` and read what changed."""
    assert await record(BY_NAME[name], form) == files.raw_file(name, form).read_bytes().decode()


@pytest.mark.requirement("002.practice.golden-streams", "002.replay.deterministic")
@each_scenario
def test_the_facts_of_the_live_source_give_the_stored_run(name: str) -> None:
    assert to_bytes(recorded(name, "live")) == files.run_file(name).read_bytes()


@each_scenario
def test_a_stored_run_keeps_the_order_rules(name: str) -> None:
    assert order_problems(stored(name)) == []


@pytest.mark.requirement("002.envelope.call-id-unique")
@each_scenario
def test_every_call_of_a_run_has_a_call_id_of_its_own(name: str) -> None:
    starts = [e.call_id for e in recorded(name, "live") if isinstance(e, RunStart | LlmStart | ToolStart)]
    assert starts
    assert len(starts) == len(set(starts))


@pytest.mark.requirement("002.mapping.chain-end")
def test_the_end_of_a_graph_inside_a_graph_has_its_name_and_its_outcome() -> None:
    envelopes = recorded("own-keys", "live")
    graphs = {e.call_id for e in envelopes if isinstance(e, ToolStart) and e.payload.kind == "graph"}
    ends = [e.payload for e in envelopes if isinstance(e, ToolEnd) and e.call_id in graphs]
    assert [(end.tool_name, end.status) for end in ends] == [("pricing", "ok")]
    (outcome,) = [end.outcome for end in ends]
    assert outcome is not None
    assert [message["text"] for message in outcome.messages] == ["lamp, chair"]


@pytest.mark.requirement("002.adapter.framework-agnostic")
@pytest.mark.parametrize(("name", "form"), [each for each in RECORDED if each[1] != "live"])
def test_other_recordings_of_the_same_scenario_give_the_same_envelopes(name: str, form: Form) -> None:
    told = recorded(name, form)
    assert order_problems(told) == []
    assert seen_by(form, story(told)) == seen_by(form, story(stored(name)))


@pytest.mark.parametrize("dialect", DIALECTS)
@each_scenario
def test_a_run_in_a_dialect_is_as_it_was_reviewed(name: str, dialect: str) -> None:
    assert files.translated(dialect, stored(name)) == files.dialect_file(dialect, name).read_bytes()


@each_scenario
def test_a_run_gives_the_views_that_were_reviewed(name: str) -> None:
    assert files.viewed(stored(name)) == files.view_file(name).read_bytes()


def test_no_golden_file_is_left_over() -> None:
    known = {files.raw_file(name, form) for name, form in RECORDED}
    known |= {path for name in BY_NAME for path in (files.run_file(name), files.view_file(name))}
    known |= {files.dialect_file(dialect, name) for name in BY_NAME for dialect in DIALECTS}
    folders = [files.HERE / folder for folder in ("raw", "runs", "views", *DIALECTS)]
    assert {path for folder in folders for path in folder.iterdir()} == known
