"""What holds for every log: whatever happens in it, wherever it is cut off, an AG-UI client accepts the stream."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.dialects.agui.dialect import DIALECT
from stellwerk.dialects.base import translate
from tests.dialects.agui_rules import problems
from tests.dialects.agui_streams import check, translated
from tests.dialects.random_logs import Machine, recovered
from tests.dialects.sample_logs import STORIES, positions

LOGS = {name: make().checked() for name, make in STORIES.items()}


@pytest.mark.parametrize("name", LOGS)
def test_every_prefix_that_is_recovered_is_legal(name: str) -> None:
    for length in range(1, len(LOGS[name]) + 1):
        check(recovered(LOGS[name][:length]))


@pytest.mark.parametrize("name", LOGS)
def test_events_that_were_sent_never_change(name: str) -> None:
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
