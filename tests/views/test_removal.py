"""What is left of a log when something is removed from it, envelope by envelope."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from stellwerk.dialects.agui import DIALECT as AGUI
from stellwerk.dialects.base import translate
from stellwerk.envelope.model import AskUser, Document, Envelope, State, ToolStart, UserAnswer, decode
from stellwerk.envelope.order import legal
from stellwerk.views import documents
from stellwerk.views.removal import Removal, Spoken
from stellwerk.views.removal_papers import Papers
from tests.dialects.agui_rules import problems
from tests.golden.files import BY_NAME, DIALECTS, stored, translated, viewed

WISH = "paint the canary"
EMPTY = {"objFinalDocuments": [], "objWorkplan": [], "objUserResponse": "", "userLanguage": "en"}


def told(type_: str, call_id: str, *, trace: str = "t1", parent: str | None = None, **payload: Any) -> Envelope:
    place = {"ts": 1.0, "trace_id": trace, "run_id": trace, "parent_id": parent, "call_id": call_id, "seq": 1}
    return decode(msgspec.json.encode({"type": type_, **place, "payload": payload}))


def said(message_id: str, text: str, *, trace: str = "t1", role: str = "user", status: str = "first") -> Envelope:
    content = [{"type": "text", "text": text}]
    return told(
        "message", f"m-{message_id}", trace=trace, message_id=message_id, role=role, content=content, status=status
    )


def round_of(trace: str, wish: str) -> list[Envelope]:
    """A workplan's round with all that may quote what the user said; its one task is answered with the wish."""
    task = {"tool_name": "writer", "tool_call_id": f"task-{trace}"}
    ref = {"name": "writer", "tool_call_id": f"task-{trace}", "args": {"prompt": wish}}
    plan = {**EMPTY, "objWorkplan": [{"agent": "writer", "prompt": wish}], "objUserResponse": f"You want: {wish}"}
    words = [{"message_id": f"inner-{trace}", "role": "assistant", "text": wish}]
    started: dict[str, Any] = {"round": 1, "trigger": "message", "system": "s", "system_version": 1}
    return [
        told("run_start", trace, trace=trace, **started),
        said(f"wish-{trace}", wish, trace=trace),
        told("llm_start", f"p-{trace}", trace=trace, model="m", message_id=f"p-{trace}", messages=[{"content": wish}]),
        told("llm_token", f"p-{trace}", trace=trace, text=wish),
        told("update", trace, trace=trace, node="plan", delta={"n": 1, "refused": {"reply": wish, "objection": wish}}),
        told("state", f"s-{trace}", trace=trace, name="plan", version=1, snapshot=plan),
        told("tool_update", f"p-{trace}", trace=trace, phase="args", text=wish, tool_call_id=f"task-{trace}"),
        told("llm_end", f"p-{trace}", trace=trace, message_id=f"p-{trace}", status="ok", tool_calls=[ref]),
        told("tool_start", f"c-{trace}", trace=trace, **task, args={"prompt": wish}, kind="agent"),
        told("llm_token", f"inner-{trace}", trace=trace, parent=f"c-{trace}", text=wish),
        told("tool_end", f"c-{trace}", trace=trace, **task, status="ok", outcome={"messages": words}),
        told("llm_token", f"last-{trace}", trace=trace, text="Done."),
        said(f"last-{trace}", "Done.", trace=trace, role="assistant", status="last"),
    ]


def left_of(log: Sequence[Envelope], call_id: str, gone: Sequence[str] = ()) -> list[Envelope]:
    """The log without what was said there, and without files."""
    papers, asked = Papers(gone), {}
    spoken: Spoken | None = None
    for position, envelope in enumerate(log, 1):
        papers.feed(position, envelope)
        if isinstance(envelope, AskUser):
            asked[envelope.payload.ask_id] = envelope
        if isinstance(envelope, Spoken) and envelope.call_id == call_id:
            spoken = spoken or envelope
            papers.begin(position, envelope)
    assert spoken is not None
    removal = Removal(spoken, papers, asked.get(spoken.payload.ask_id) if isinstance(spoken, UserAnswer) else None)
    stubs = [removal.stub(position, envelope) or envelope for position, envelope in enumerate(log, 1)]
    assert [removal.stub(position, stub) for position, stub in enumerate(stubs, 1)] == [None] * len(log)
    return stubs


def test_what_agents_told_each_other_goes_with_the_wish_that_it_quotes() -> None:
    before, after = round_of("t1", "paint the finch"), round_of("t2", WISH)
    left = left_of([*before, *after], "m-wish-t2")
    assert left[: len(before)] == before
    assert WISH not in str(left[len(before) :])
    assert left[-2:] == after[-2:]
    (plan,) = [envelope.payload.snapshot for envelope in left[len(before) :] if isinstance(envelope, State)]
    assert plan == EMPTY


def test_later_rounds_may_quote_a_message_and_say_no_more_what_agents_were_given() -> None:
    left = left_of([*round_of("t1", "hello"), *round_of("t2", WISH)], "m-last-t1")
    assert [str(envelope).count(WISH) for envelope in left if WISH in str(envelope)] == [1]  # the other message


def test_a_tool_call_that_names_a_file_anywhere_in_its_arguments_goes_with_it() -> None:
    file: dict[str, Any] = {"document_id": "d1", "name": "Notes.txt", "mime": "text/plain", "size": 1, "digest": "d1"}
    asked = [{"files": [{"path": "notes.txt"}]}, {"files": [{"path": "other.txt"}]}]
    calls = [
        told("tool_start", f"c{n}", tool_name="look", tool_call_id=f"i{n}", args=args) for n, args in enumerate(asked)
    ]
    log = [said("wish", WISH), told("document", "f1", **file, action="added", message_id="wish"), *calls]
    left = left_of(log, "m-wish", ["d1"])
    assert [call.payload.args for call in left if isinstance(call, ToolStart)] == [{}, asked[1]]


def test_a_file_that_another_message_has_still_is_listed_once_and_by_its_name() -> None:
    file: dict[str, Any] = {"document_id": "d1", "name": "Notes.txt", "mime": "text/plain", "size": 1, "digest": "d1"}
    log = [
        said("wish", WISH),
        told("document", "f1", **file, action="added", message_id="wish"),
        said("more", "hello"),
        told("document", "f2", **file, action="added", message_id="more"),
    ]
    files: tuple[documents.Filed, ...] = ()
    for envelope in left_of(log, "m-wish"):
        files = documents.fold(files, envelope)
    assert [file.name for file in files] == ["Notes.txt"]


@pytest.mark.parametrize("name", BY_NAME)
def test_a_log_from_which_something_was_removed_is_still_legal_and_told_in_every_dialect(name: str) -> None:
    log = stored(name)
    files = [envelope.payload.document_id for envelope in log if isinstance(envelope, Document)]
    for spoken in [envelope.call_id for envelope in log if isinstance(envelope, Spoken)]:
        left = left_of(log, spoken, files)
        assert legal(left) == legal(log)
        assert problems(chunk for _, chunk in translate(AGUI.translator("session"), enumerate(left, 1))) == []
        for dialect in DIALECTS:
            translated(dialect, left)
        viewed(left)
