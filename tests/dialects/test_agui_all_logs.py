"""What holds for every log: whatever happens in it, wherever it is cut off, an AG-UI client accepts the stream."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.dialects.agui import DIALECT
from stellwerk.dialects.base import translate
from stellwerk.envelope.model import Envelope, LlmEnd, LlmToken, RunEnd
from tests.dialects.agui_rules import Chunk, Client, problems
from tests.dialects.stories import STORIES, positions
from tests.dialects.test_langgraph_all_logs import Machine, recovered

LOGS = {name: make().checked() for name, make in STORIES.items()}


def translated(log: Sequence[Envelope]) -> list[Chunk]:
    return [chunk for _, chunk in translate(DIALECT.translator("s1"), positions(log))]


def check(log: Sequence[Envelope]) -> None:
    """The stream is legal, ends with the end of a run, and shows each text once."""
    told = translated(log)
    assert problems(told) == []
    assert told[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    screen = Client().read(told)
    for message_id, text in spoken(log).items():
        assert screen.messages[message_id]["content"] == text
    assert not {id_ for id_ in in_vain(log) if id_ in screen.messages}, "nothing is left of what was said in vain"


def spoken(log: Sequence[Envelope]) -> dict[str, str]:
    """The text of every model call that ended well, by the id that it began with."""
    texts: dict[str, str] = {}
    for envelope in log:
        if isinstance(envelope, LlmToken) and envelope.payload.kind == "text":
            texts[envelope.call_id] = texts.get(envelope.call_id, "") + envelope.payload.text
    return {
        e.call_id: texts[e.call_id]
        for e in log
        if isinstance(e, LlmEnd) and e.payload.status == "ok" and e.call_id in texts
    }


def in_vain(log: Sequence[Envelope]) -> set[str]:
    """Model calls that failed or were given up in runs that ended well without them."""
    ended = {e.run_id: e.payload.status for e in log if isinstance(e, RunEnd)}
    well = {run_id for run_id, status in ended.items() if status in ("completed", "awaiting_user")}
    return {e.call_id for e in log if isinstance(e, LlmEnd) and e.payload.status != "ok" and e.run_id in well}


@pytest.mark.parametrize("name", LOGS)
def test_every_prefix_that_is_recovered_is_legal(name: str) -> None:
    for length in range(1, len(LOGS[name]) + 1):
        check(recovered(LOGS[name][:length]))


@pytest.mark.parametrize("name", LOGS)
def test_what_was_told_is_not_changed_by_what_comes_later(name: str) -> None:
    whole = [DIALECT.frame(*each) for each in translate(DIALECT.translator("s1"), positions(LOGS[name]))]
    for length in range(len(LOGS[name])):
        cut = [DIALECT.frame(*each) for each in translate(DIALECT.translator("s1"), positions(LOGS[name][:length]))]
        assert whole[: len(cut)] == cut


@pytest.mark.parametrize("name", LOGS)
def test_fed_from_a_later_run_it_is_legal_all_the_same(name: str) -> None:
    log = LOGS[name]
    for start in [
        number for number, envelope in enumerate(log) if envelope.call_id == envelope.run_id and envelope.seq == 1
    ]:
        assert problems(translated(log[start:])) == []


class Wilder(Machine):
    """Also calls that speak while they run, states, and questions between two runs."""

    def step(self) -> None:
        moves = [super().step, self.change]
        moves += [self.output] if self.tools else []
        moves += [self.ask] if self.tools and not self.models else []
        self.draw(st.sampled_from(moves))()

    def output(self) -> None:
        call = self.draw(st.sampled_from(list(self.tools)))
        self.story.update(call, f"{call} ", parent=self.tools[call][1])

    def change(self) -> None:
        parent = self.draw(st.sampled_from([None, *(f"#{call}" for call in self.tools)]))
        self.story.state(self.draw(st.sampled_from(["todos", "plan"])), 1, parent, snapshot=[self.fresh()])

    def ask(self) -> None:
        question, call = self.fresh(), self.draw(st.sampled_from(list(self.tools)))
        about = {"tool_call_id": self.fresh(), "tool_name": "t"} if self.draw(st.booleans()) else {}
        self.story.ask(question, "?", f"#{call}", **about).end("awaiting_user")
        self.story.begin(None, ask_ids=[question]).answer(question, "!")

    def finish(self) -> None:
        """What is still open is cut off, inner calls first, and the run ends."""
        for call, parent in self.models.items():
            self.story.thought(call, parent=parent, status="abandoned", synthesized=True)
        for call, (_, parent) in reversed(self.tools.items()):
            self.story.used("t", call, None, parent, status="abandoned", synthesized=True)
        self.story.end(self.draw(st.sampled_from(["completed", "stopped", "failed"])))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_interleaving_of_calls_and_questions_cut_off_anywhere_is_legal(data: st.DataObject) -> None:
    machine = Wilder(data.draw)
    for _ in range(data.draw(st.integers(1, 30))):
        machine.step()
    if data.draw(st.booleans()):
        machine.finish()
    check(recovered(machine.story.checked()))
