"""The folds behind /state, /usage, /artifacts and /messages."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.envelope.model import (
    AskUser,
    Document,
    Envelope,
    LlmEnd,
    Log,
    Message,
    RunStart,
    UserAnswer,
    encode,
    type_of,
)
from stellwerk.envelope.payloads import (
    Answered,
    Asked,
    Filed,
    FilePart,
    Logged,
    ModelEnded,
    RunStarted,
    Said,
    TextPart,
    Usage,
)
from stellwerk.views import transcript
from stellwerk.views.overview import TYPES, Overview, as_json, folded
from stellwerk.views.transcript import Hidden, title
from tests.golden.files import BY_NAME, stored
from tests.samples import place, run_end, run_start, whole_run


def spent(model: str, read: int, wrote: int) -> LlmEnd:
    used = Usage(model=model, input_tokens=read, output_tokens=wrote)
    return LlmEnd(**place("llm", 2), payload=ModelEnded(message_id="llm", status="ok", usage=used))


def log(message: str, progress: int | None = None) -> Log:
    return Log(**place("run", 2), payload=Logged(message=message, progress=progress))


def document(document_id: str, name: str, **about: Any) -> Document:
    filed = Filed(document_id=document_id, name=name, mime="text/plain", size=1, digest="d", **about)
    return Document(**place(document_id, 1), payload=filed)


def said(message_id: str, *, role: Any = "assistant", run: str = "run", **about: Any) -> Message:
    payload = Said(message_id=message_id, role=role, content=[TextPart(text=message_id)], status="last", **about)
    return Message(**place(f"say-{message_id}", 1, run=run), payload=payload)


def again(run: str, replaces: str, message_id: str) -> RunStart:
    started = RunStarted(
        round=2, trigger="regenerate", system="s", system_version=1, message_id=message_id, replaces=replaces
    )
    return RunStart(**place(run, 1, parent=None, run=run), payload=started)


def read(*story: Envelope) -> list[str]:
    """The texts of the transcript."""
    hidden = folded(Overview(), story).hidden
    entries = [transcript.entry(hidden, n, envelope) for n, envelope in enumerate(story, start=1)]
    return [entry.text for entry in entries if entry is not None]


@pytest.mark.requirement("trust.I6")
@pytest.mark.parametrize("name", BY_NAME)
def test_only_the_types_that_are_read_change_the_overview(name: str) -> None:
    story = stored(name)
    looked_at = [envelope for envelope in story if type_of(envelope) in TYPES]
    assert folded(Overview(), looked_at) == folded(Overview(), story)


@pytest.mark.requirement("trust.I6")
@given(st.sampled_from(sorted(BY_NAME)), st.data())
def test_an_overview_that_was_kept_anywhere_goes_on_to_the_same_end(name: str, data: st.DataObject) -> None:
    story = stored(name)
    cut = data.draw(st.integers(0, len(story)))
    kept = msgspec.json.decode(msgspec.json.encode(folded(Overview(), story[:cut])), type=Overview)
    resumed, whole = folded(kept, story[cut:]), folded(Overview(), story)
    assert msgspec.json.encode(as_json(resumed)) == msgspec.json.encode(as_json(whole))
    assert resumed == whole


def test_usage_counts_each_model_for_itself() -> None:
    usage = as_json(folded(Overview(), [spent("a", 1, 2), spent("b", 3, 4), spent("a", 5, 6)]))["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["model_calls"]) == (9, 12, 3)
    assert usage["models"][0] == {"model": "a", "input_tokens": 6, "output_tokens": 8, "calls": 2}


def test_progress_keeps_its_percentage_and_is_reset_by_each_run() -> None:
    under_way = folded(Overview(), [run_start(), log("half", 50), log("still there")])
    assert (under_way.progress.percent, under_way.progress.message) == (50, "still there")
    assert folded(under_way, [run_end(), run_start("next", 2)]).progress.percent is None


def test_a_file_is_listed_once_and_goes_when_it_is_removed() -> None:
    files = [document("d1", "a"), document("d1", "a"), document("d1", "b"), document("d2", "c")]
    assert [file.name for file in folded(Overview(), files).documents] == ["a", "b", "c"]
    removed = folded(Overview(), [*files, document("d1", "a", action="removed")])
    assert [file.name for file in removed.documents] == ["c"]


def test_a_question_is_open_until_its_answer_or_the_end() -> None:
    asked = [AskUser(**place(ask, 1), payload=Asked(ask_id=ask, question=ask)) for ask in ("q1", "q2")]
    waiting = folded(Overview(), [run_start(), *asked, run_end(status="awaiting_user")])
    assert [question.ask_id for question in waiting.questions] == ["q1", "q2"]
    answered = UserAnswer(**place("a", 1), payload=Answered(ask_id="q1", text="yes"))
    assert [question.ask_id for question in folded(waiting, [answered]).questions] == ["q2"]
    assert folded(waiting, [run_end(status="stopped")]).questions == ()


def test_the_transcript_has_questions_and_answers_in_their_place() -> None:
    asked = AskUser(**place("q", 1), payload=Asked(ask_id="q", question="May I?", options=["yes", "no"]))
    answered = UserAnswer(**place("a", 1), payload=Answered(ask_id="q", text="yes"))
    assert read(said("hello", role="user"), asked, answered, said("done")) == ["hello", "May I?", "yes", "done"]


def test_a_message_that_was_taken_back_is_not_shown() -> None:
    assert read(said("one"), said("two"), said("one", action="removed")) == ["two"]


def test_a_regenerated_answer_replaces_the_old_one() -> None:
    story: list[Envelope] = [run_start("old"), said("hello", role="user", run="old"), said("first", run="old")]
    assert read(*story, again("new", "old", "hello"), said("second", run="new")) == ["hello", "second"]


def test_a_run_without_anything_hidden_shows_all_that_was_said() -> None:
    entries = [transcript.entry(Hidden(), n, envelope) for n, envelope in enumerate(whole_run(), start=1)]
    assert [entry.role for entry in entries if entry is not None] == ["user"]


def test_a_title_is_one_short_line_without_half_a_character_and_of_files_alone_their_names() -> None:
    def titled(*content: TextPart | FilePart) -> str | None:
        said = Said(message_id="m", role="user", content=list(content), status="first")
        return title(encode(Message(ts=1.0, parent_id=None, call_id="c", seq=1, payload=said)))

    assert titled(TextPart(text=" one\r\n\u2028two\tthree ")) == "one two three"
    assert titled(TextPart(text="🦉" * 100)) == "🦉" * 79 + "…"
    assert titled(FilePart(document_id="d", filename="a.txt", mime="text/plain")) == "a.txt"
    assert titled(TextPart(text="\n")) is None
