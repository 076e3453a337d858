import pytest
from msgspec.structs import replace

from stellwerk.envelope.model import AskUser, Envelope, UserAnswer
from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.testing.order import order_problems
from tests.samples import (
    llm_end,
    llm_start,
    message,
    place,
    run_end,
    run_start,
    token,
    tool_end,
    tool_start,
    whole_run,
)


def ask(ask_id: str = "q1") -> AskUser:
    return AskUser(**place(ask_id, 1), payload=Asked(ask_id=ask_id, question="Which?"))


def answer(ask_id: str = "q1", run: str = "run2") -> UserAnswer:
    return UserAnswer(**place("re-" + ask_id, 1, run=run), payload=Answered(ask_id=ask_id, text="this"))


def test_a_whole_run_is_legal() -> None:
    assert order_problems(whole_run()) == []


def test_a_run_that_asks_leaves_the_tool_open_and_the_next_one_goes_on_with_it() -> None:
    story: list[Envelope] = [
        run_start(),
        tool_start(),
        ask(),
        run_end(status="awaiting_user"),
        run_start("run2", round=2),
        answer(),
        replace(tool_end(), run_id="run2"),
        run_end(run="run2"),
    ]
    assert order_problems(story) == []


BROKEN: dict[str, tuple[list[Envelope], str]] = {
    "nothing before its run": ([token("hi")], "which has not started"),
    "nothing after its end": ([run_start(), run_end(), message()], "comes after the end"),
    "a run starts once": ([run_start(), run_end(), run_start(round=2)], "starts twice"),
    "one run at a time": ([run_start(), run_start("run2", round=2)], "while run is running"),
    "rounds rise": ([run_start(), run_end(), run_start("run2", round=1)], "round 1 comes after round 1"),
    "a run is a root": ([replace(run_start(), parent_id="x")], "root call"),
    "seq counts by one": ([run_start(), llm_start(), token("a", seq=3)], "seq 3, expected 2"),
    "a token needs its call": ([run_start(), token("a", seq=1)], "not open"),
    "a call ends once": ([run_start(), llm_start(), llm_end(2), llm_end(3)], "not open"),
    "an end fits its start": ([run_start(), llm_start("x"), tool_end(call="x")], "not open"),
    "a call id is used once": ([run_start(), llm_start(), llm_end(2), replace(llm_start(), seq=3)], "started before"),
    "a parent is open": ([run_start(), llm_start(parent="ghost")], "ghost, which is not open"),
    "a call has a parent": ([run_start(), replace(llm_start(), parent_id=None)], "no parent"),
    "a parent ends last": ([run_start(), tool_start("t"), llm_start("b", parent="t"), tool_end(call="t")], "inside it"),
    "everything is closed": ([run_start(), llm_start(), run_end()], "still open"),
    "a model call does not wait for the user": (
        [run_start(), llm_start(), ask(), run_end(status="awaiting_user")],
        "still open",
    ),
    "who waits has asked": ([run_start(), run_end(status="awaiting_user")], "asked nothing"),
    "an answer has a question": ([run_start("run2"), answer()], "is not open"),
    "a question is asked once": ([run_start(), ask(), replace(ask(), seq=2)], "asked twice"),
    "a message appears once": ([run_start(), message(), replace(message(), seq=2)], "appears twice"),
    "what we made up is no success": (
        [run_start(), llm_start(), replace(llm_end(2), payload=replace(llm_end().payload, synthesized=True))],
        "claims success",
    ),
}


@pytest.mark.parametrize("story, complaint", BROKEN.values(), ids=BROKEN.keys())
def test_the_checker_finds_what_breaks_a_rule(story: list[Envelope], complaint: str) -> None:
    assert any(complaint in problem for problem in order_problems(story)), order_problems(story)
