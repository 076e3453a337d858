"""Rounds that are replaced: what is left after any sequence of messages, questions, edits and regenerated answers."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from stellwerk.envelope.model import RunStart
from stellwerk.envelope.payloads import RunStarted
from stellwerk.views.rounds import Rounds, round_of, run_starts


@dataclass
class Chat:
    """What a user does, and beside the fold a list that is cut where something is replaced."""

    rounds: Rounds = ()
    left: list[tuple[str, list[str]]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    runs: int = 0

    def run(self, message: str | None, trace: str | None = None, replaces: str | None = None) -> str:
        self.runs += 1
        run = f"r{self.runs}"
        started = RunStarted(
            round=self.runs, trigger="message", system="s", system_version=1, message_id=message, replaces=replaces
        )
        start = RunStart(ts=0, trace_id=trace or run, run_id=run, parent_id=None, call_id=run, seq=1, payload=started)
        self.rounds, replaced = run_starts(self.rounds, start)
        self.gone |= replaced.runs
        self.hidden |= replaced.messages
        return run

    def begin(self) -> None:
        message = f"m{self.runs}"
        self.left.append((message, [self.run(message)]))

    def answer(self) -> None:
        if self.left:
            self.left[-1][1].append(self.run(None, trace=self.left[-1][1][0]))

    def replace(self, place: int, which: int, *, edit: bool) -> None:
        if not self.left:
            return
        message, runs = self.left[place % len(self.left)]
        del self.left[place % len(self.left) :]
        message = f"m{self.runs}" if edit else message
        self.left.append((message, [self.run(message, replaces=runs[which % len(runs)])]))


STEPS = st.one_of(
    st.just(("begin",)),
    st.just(("answer",)),
    st.tuples(st.just("replace"), st.integers(0, 5), st.integers(0, 2), st.booleans()),
)


@given(st.lists(STEPS, max_size=25))
def test_what_is_left_is_what_no_later_run_replaces(steps: list[tuple[object, ...]]) -> None:
    chat = Chat()
    for name, *about in steps:
        match name:
            case "begin":
                chat.begin()
            case "answer":
                chat.answer()
            case _:
                chat.replace(int(str(about[0])), int(str(about[1])), edit=bool(about[2]))
    assert [(each.message_id, list(each.runs)) for each in chat.rounds] == chat.left
    left = {run for _, runs in chat.left for run in runs}
    assert chat.gone == {f"r{n}" for n in range(1, chat.runs + 1)} - left
    assert chat.hidden.isdisjoint({message for message, _ in chat.left})
    assert all(round_of(chat.rounds, run) is None for run in chat.gone)


def test_a_run_that_came_before_all_known_ones_replaces_them_all() -> None:
    chat = Chat()
    chat.begin()
    chat.run("m", replaces="of-an-earlier-page")
    assert chat.gone == {"r1", "of-an-earlier-page"}
    assert [each.runs for each in chat.rounds] == [("r2",)]
