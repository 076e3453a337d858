"""What is left of a log after an erasure, envelope by envelope."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from stellwerk.dialects.agui.dialect import DIALECT as AGUI
from stellwerk.dialects.base import translate
from stellwerk.envelope.model import Document, Envelope, LlmStart, decode
from stellwerk.envelope.payloads import Updated
from stellwerk.testing.order import order_problems
from stellwerk.views.overview import Overview, folded
from stellwerk.views.tombstones import Erasable, Erasure, SessionIndex
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
    """The log after the erasure of a message and its files."""
    index = SessionIndex()
    for position, envelope in enumerate(log, 1):
        index.feed(position, envelope)
    target = next(each for each in log if isinstance(each, Erasable) and each.call_id == call_id)
    erasure = Erasure(target, index, gone)
    left = [erasure.tombstone(position, envelope) or envelope for position, envelope in enumerate(log, 1)]
    assert [erasure.tombstone(position, each) for position, each in enumerate(left, 1)] == [None] * len(log)
    return left


def changed(log: Sequence[Envelope], left: Sequence[Envelope]) -> list[str]:
    return [type(old).__name__ for old, new in zip(log, left, strict=True) if old != new]


def test_a_message_goes_with_the_stored_prompts_of_its_round_and_later_ones() -> None:
    log = [*round_of("t1", "paint the finch"), *round_of("t2", WISH), *round_of("t3", "hello")]
    left = left_of(log, "m-wish-t2")
    assert changed(log, left) == ["Message", "LlmStart", "LlmStart"]
    assert [call.payload.messages for call in left if isinstance(call, LlmStart)] == [
        [{"content": "paint the finch"}],
        None,
        None,
    ]


def test_a_message_goes_with_the_input_config_and_context_of_its_runs() -> None:
    given: dict[str, Any] = {"input": {"topic": WISH}, "config": {"run_name": WISH}, "context": {"tone": WISH}}
    log = [told("message", "m-wish", message_id="wish", role="user", content=[], status="first", **given)]
    assert WISH not in str(left_of(log, "m-wish"))


def test_an_answer_goes_with_its_tokens_and_what_agents_were_given_stays() -> None:
    log = [*round_of("t1", "hello"), *round_of("t2", WISH)]
    left = left_of(log, "m-last-t1")
    assert changed(log, left) == ["LlmStart", "LlmToken", "Message", "LlmStart"]


def test_a_message_goes_from_a_clients_change_of_the_state_that_replaced_it() -> None:
    def change(*messages: dict[str, str]) -> Envelope:
        return told("update", "u", node="model", delta={"tone": "!", "messages": list(messages)}, by="user")

    other = {"id": "other", "content": WISH}
    log = [said("wish", WISH), change({"id": "wish", "content": WISH}, other), change(other)]
    left = left_of(log, "m-wish")
    assert changed(log, left) == ["Message", "Update"]
    assert left[1].payload == Updated(node="model", delta={"tone": "!", "messages": [other]}, by="user", redacted=True)


def test_a_file_goes_and_tool_calls_that_name_it_stay() -> None:
    file: dict[str, Any] = {"document_id": "d1", "name": "Notes.txt", "mime": "text/plain", "size": 1, "digest": "d1"}
    call = told("tool_start", "c1", tool_name="look", tool_call_id="i1", args={"path": "notes.txt"})
    log = [said("wish", WISH), told("document", "f1", **file, action="added", message_id="wish"), call]
    assert changed(log, left_of(log, "m-wish", ["d1"])) == ["Message", "Document"]


def test_a_file_that_another_message_has_still_is_listed_once_and_by_its_name() -> None:
    file: dict[str, Any] = {"document_id": "d1", "name": "Notes.txt", "mime": "text/plain", "size": 1, "digest": "d1"}
    log = [
        said("wish", WISH),
        told("document", "f1", **file, action="added", message_id="wish"),
        said("more", "hello"),
        told("document", "f2", **file, action="added", message_id="more"),
    ]
    files = folded(Overview(), left_of(log, "m-wish")).documents
    assert [file.name for file in files] == ["Notes.txt"]


@pytest.mark.parametrize("name", BY_NAME)
def test_a_log_is_still_legal_in_every_dialect_after_an_erasure(name: str) -> None:
    log = stored(name)
    files = [envelope.payload.document_id for envelope in log if isinstance(envelope, Document)]
    for spoken in [envelope.call_id for envelope in log if isinstance(envelope, Erasable)]:
        left = left_of(log, spoken, files)
        assert order_problems(left) == order_problems(log)
        assert problems(chunk for _, chunk in translate(AGUI.translator("session"), enumerate(left, 1))) == []
        for dialect in DIALECTS:
            translated(dialect, left)
        viewed(left)
