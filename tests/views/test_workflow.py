"""A session as a workflow: log entries, messages and figures, as clients read them that poll."""

from functools import reduce
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from stellwerk.envelope.model import (
    AskUser,
    Document,
    Envelope,
    Error,
    LlmEnd,
    Log,
    Message,
    RunEnd,
    RunStart,
    SubgraphCheckpoint,
    SubgraphResume,
    ToolEnd,
    UserAnswer,
    Warning,
)
from stellwerk.envelope.payloads import (
    Answered,
    Asked,
    Checkpointed,
    Filed,
    Logged,
    ModelEnded,
    Problem,
    Resumed,
    RunEnded,
    RunStarted,
    Said,
    TextPart,
    ToolEnded,
    Usage,
)
from stellwerk.ids import digest_id
from stellwerk.views.status import Status, fold
from stellwerk.workflows.views.workflow import Workflow, message_id
from tests.samples import place

E = TypeVar("E", bound=Envelope)


def workflow(*envelopes: Envelope) -> Workflow:
    shown = Workflow("w")
    for envelope in envelopes:
        shown.feed(envelope)
    return shown


def start(round: int = 1, trigger: Any = "message", **about: Any) -> RunStart:
    run = f"run{round}"
    started = RunStarted(round=round, trigger=trigger, system="office", system_version=1, **about)
    return RunStart(**{**place(run, 1, parent=None, run=run), "ts": float(round)}, payload=started)


def end(status: Any = "completed", round: int = 1, **about: Any) -> RunEnd:
    run = f"run{round}"
    ended = RunEnded(status=status, **about)
    return RunEnd(**{**place(run, 9, parent=None, run=run), "ts": round + 0.5}, payload=ended)


def said(name: str, status: Any = "last", role: Any = "assistant", round: int = 1, **about: Any) -> Message:
    payload = Said(message_id=name, role=role, content=[TextPart(text=name)], status=status, **about)
    return Message(**place(message_id(name)[4:], 1, run=f"run{round}"), payload=payload)


def filed(name: str, **about: Any) -> Document:
    payload = Filed(document_id=name, name=name, mime="text/plain", size=10, digest="d", **about)
    return Document(**place(f"file-{name}", 1), payload=payload)


def problem(kind: type[Warning] | type[Error], text: str, code: str = "c", *, fatal: bool = False) -> Envelope:
    return kind(**place("run1", 5), payload=Problem(code=code, name="fetch", message=text, fatal=fatal))


def progress(text: str, percent: int) -> Log:
    return Log(**place("run1", 4), payload=Logged(message=text, progress=percent))


def at(ts: float, envelope: E) -> E:
    return replace(envelope, ts=ts)


def spent(tokens: int, *, synthesized: bool = False) -> LlmEnd:
    usage = None if synthesized else Usage(model="m", input_tokens=tokens - 1, output_tokens=1)
    ended = ModelEnded(message_id="m", status="ok", usage=usage, synthesized=synthesized)
    return LlmEnd(**place("m", 3), payload=ended)


def checkpoint() -> SubgraphCheckpoint:
    return SubgraphCheckpoint(**place("run1", 6), payload=Checkpointed(checkpoint_id="c", node="n", state_digest="d"))


def resume() -> SubgraphResume:
    return SubgraphResume(**place("run1", 7), payload=Resumed(checkpoint_id="c", node="n", attempt=2))


def question(name: str = "a") -> AskUser:
    return AskUser(**place("ask", 1), payload=Asked(ask_id=name, question="Which format?"))


def answer(name: str = "a") -> UserAnswer:
    return UserAnswer(**place(digest_id("answer", name), 1), payload=Answered(ask_id=name, text="docx"))


BEGUN = [("Workflow initialized", "info", 0), ("Workflow processing started", "info", 0)]
AGAIN = [
    ("Running workflow", "info", 0),
    ("Resuming workflow, round 2", "info", 0),
    ("Workflow processing started", "info", 0),
]


@pytest.mark.parametrize(
    ("told", "entries"),
    [
        pytest.param(
            [start()], BEGUN, marks=pytest.mark.requirement("003.start.log-initialized", "003.start.log-running")
        ),
        pytest.param([start(2)], AGAIN, marks=pytest.mark.requirement("003.resume.log", "003.input.log")),
        ([start(2, "answer")], AGAIN),
        ([start(2, "stop"), end("stopped", 2)], [("Workflow stopped by user", "info", 100)]),
        ([progress("Work plan created", 25)], [("Work plan created", "info", 25)]),
        ([problem(Warning, "slow")], [("slow", "warning", None)]),
        ([problem(Error, "it is odd")], [("it is odd", "error", None)]),
        ([problem(Error, "fetch raised OSError", "call_failed")], [("A call of fetch has failed", "warning", None)]),
        pytest.param(
            [end()],
            [("Workflow completed successfully", "info", 100)],
            marks=pytest.mark.requirement("003.completed.log"),
        ),
        pytest.param(
            [end("stopped")], [("Workflow stopped by user", "info", 100)], marks=pytest.mark.requirement("003.stop.log")
        ),
        pytest.param(
            [problem(Error, "no model", fatal=True), end("failed", reason="no model")],
            [("no model", "error", 100), ("Workflow failure reported", "error", 100)],
            marks=pytest.mark.requirement("003.failed.log"),
        ),
        pytest.param(
            [end("failed", reason="the server was killed")],
            [("the server was killed", "error", 100), ("Workflow failure reported", "error", 100)],
            marks=pytest.mark.requirement("003.interrupt.log"),
        ),
        ([end("awaiting_user")], []),
        ([start(), resume()], [*BEGUN, ("Workflow goes on after a restart of the server", "info", None)]),
        ([start(2, "answer"), resume()], AGAIN),
        (
            [start(2, "answer"), resume(), resume()],
            [*AGAIN, ("Workflow goes on after a restart of the server", "info", None)],
        ),
    ],
)
def test_the_log_says_what_the_contract_says(told: list[Envelope], entries: list[tuple[str, str, int | None]]) -> None:
    assert [(entry.message, entry.type, entry.progress) for entry in workflow(*told).logs] == entries


def test_a_question_is_a_step_of_the_assistant_and_an_entry_of_the_log() -> None:
    shown = workflow(start(), question(), question(), end("awaiting_user"))
    assert [(m.role, m.status, m.content) for m in shown.messages] == [("assistant", "step", "Which format?")]
    assert shown.logs[-1].message == "Waiting for an answer: Which format?"
    assert (shown.status, shown.awaiting_user_input) == ("running", True)


@pytest.mark.parametrize(("trigger", "failed"), [("answer", 1), ("stop", 1), ("message", 0), ("regenerate", 0)])
def test_tasks_that_have_failed_are_known_until_another_trace_begins(trigger: str, failed: int) -> None:
    ended = ToolEnded(tool_name="task", tool_call_id="task-1", status="error")
    task = ToolEnd(**place("task", 2), payload=ended)
    told: list[Envelope] = [start(), task, question(), end("awaiting_user"), start(2, trigger), end("stopped", 2)]
    assert workflow(*told).failed_tasks == len(reduce(fold, told, Status()).failed_tasks) == failed


@pytest.mark.requirement("003.completed.seen-by-api")
def test_the_last_message_is_shown_together_with_the_end() -> None:
    shown = workflow(start(), said("go", "first", "user"), said("done"))
    assert [message.content for message in shown.messages] == ["go"]
    shown.feed(end())
    assert [message.content for message in shown.messages] == ["go", "done"]
    assert (shown.status, shown.logs[-1].progress) == ("completed", 100)


@pytest.mark.requirement("003.message.sequence-no")
def test_a_message_that_is_taken_back_leaves_the_numbers_of_the_others_alone() -> None:
    removed = said("one", "step", action="removed")
    shown = workflow(start(), said("go", "first", "user"), said("one", "step"), said("two", "step"), removed)
    assert [(message.content, message.sequence_no) for message in shown.messages] == [("go", 1), ("two", 3)]
    assert message_id("one") in shown.removed


def test_a_regenerated_answer_replaces_the_old_one() -> None:
    first = (start(), said("go", "first", "user"), said("old"), end())
    again = start(2, "regenerate", replaces="run1")
    shown = workflow(*first, again, said("new", round=2), end(round=2))
    assert [message.content for message in shown.messages] == ["go", "new"]


@pytest.mark.requirement("003.document.name-and-ext", "003.message.documents")
def test_a_message_names_its_documents_until_one_is_removed() -> None:
    shown = workflow(start(), filed("a.tar.gz"), filed("b"), said("go", "first", "user", documents=["a.tar.gz", "b"]))
    assert [(file.name, file.ext) for file in shown.messages[0].documents] == [("a.tar", "gz"), ("b", "")]
    shown.feed(filed("b", action="removed", message_id="go"))
    assert [file.document_id for file in shown.messages[0].documents] == ["a.tar.gz"]


@pytest.mark.requirement("003.workflow.data-stats")
def test_figures_count_what_came_in_what_went_out_and_time_at_work() -> None:
    given = (start(), filed("in.txt"), said("four", "first", "user", documents=["in.txt"]))
    made = (filed("out.txt"), said("answer", documents=["out.txt"]), end())
    stats = workflow(*given, *made).figures
    assert (stats.bytes_received, stats.bytes_sent, stats.processing_time) == (14, 16, 0.5)
    waited = workflow(start(), end("awaiting_user"), start(2, "answer"), end(round=2)).figures
    assert waited.processing_time == 1.0


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ([checkpoint(), resume(), end()], [4, 100, 107]),
        ([checkpoint(), spent(0, synthesized=True), resume(), end()], [4, 100, 100, 107]),
        ([checkpoint(), spent(0, synthesized=True), end("failed", code="crashed")], [11, 100, 100]),
        ([checkpoint(), problem(Error, "cut off", fatal=True), end("failed", code="crashed")], [11, 100, 100]),
        ([checkpoint(), resume(), checkpoint(), resume(), end("stopped")], [4, 100, 103, 200, 204]),
        ([checkpoint(), end()], [4, 11]),
    ],
)
def test_seconds_in_which_there_was_no_server_are_not_counted(told: list[Envelope], seconds: list[float]) -> None:
    """Ten of work in each case; what was done behind the last thing stored is lost, and is not counted either."""
    shown = workflow(at(1.0, start()), *(at(ts, envelope) for ts, envelope in zip(seconds, told, strict=True)))
    assert shown.figures.processing_time == 10.0


@pytest.mark.requirement("003.message.data-stats")
def test_the_figures_of_a_message_are_what_was_used_up_since_the_one_before() -> None:
    lost = (at(0.0, start()), at(0.4, spent(9)), at(0.5, end("stopped")))
    one = (at(1.0, start(2)), at(1.0, said("go", "first", "user")), at(2.0, spent(30)), at(3.0, said("one", "step")))
    two = (at(4.0, spent(5)), at(5.0, spent(7)), at(6.0, filed("out.txt")), at(6.5, said("end", documents=["out.txt"])))
    shown = workflow(*lost, *one, *two, at(7.0, end()))
    assert [
        (each.bytes_received, each.bytes_sent, each.tokens_used, each.processing_time)
        for each in (*(message.data_stats for message in shown.messages), shown.figures)
    ] == [(2, 0, 0, 0.0), (0, 3, 30, 2.0), (0, 13, 12, 3.5), (2, 16, 51, 6.5)]


@pytest.mark.requirement("003.message.ids")
def test_the_parent_of_a_message_is_the_one_that_it_answers() -> None:
    earlier = replace(said("before", "step"), run_id=None)
    asked = (start(message_id="go"), said("go", "first", "user"), said("one", "step"), question(), end("awaiting_user"))
    answered = (start(2, "answer"), answer(), resume(), said("done", round=2), end(round=2))
    waits = replace(said("next", "first", "user"), run_id=None)
    later = (start(3, message_id="next"), said("more", round=3), end(round=3))
    again = (start(4, "regenerate", message_id="next", replaces="run3"), said("anew", round=4), end(round=4))
    shown = workflow(earlier, *asked, waits, *answered, *later, *again)
    names = {message.id: message.content for message in shown.messages}
    parents = [(each.content, each.parent_message_id and names[each.parent_message_id]) for each in shown.messages]
    assert parents == [
        ("before", None),
        ("go", None),
        ("one", "go"),
        ("Which format?", "go"),
        ("next", None),
        ("docx", "Which format?"),
        ("done", "docx"),
        ("anew", "next"),
    ]


@pytest.mark.requirement("003.input.last-activity")
def test_last_activity_moves_with_what_is_shown_and_with_nothing_else() -> None:
    shown = workflow(start())
    before = shown.last_activity
    shown.feed(filed("in.txt"))
    assert shown.last_activity == before
    shown.feed(said("go", "step"))
    assert shown.last_activity == 1.5
    shown.feed(replace(said("and more", "first", "user", round=2), ts=2.5))
    assert shown.last_activity == 2.5


@pytest.mark.requirement("003.workflow.name")
def test_the_name_is_the_beginning_of_the_first_prompt() -> None:
    shown = workflow(start(), said("x" * 100, "first", "user"), said("later", "first", "user"))
    assert shown.name == "x" * 60
