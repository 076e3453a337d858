"""Chunks with live=true: text as it is written, settled or taken back later, and never said twice."""

import pytest

from stellwerk.dialects.chunks import RETRACTED
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from tests.dialects.chunk_streams import OUTER, of_type, told
from tests.dialects.sample_logs import STORIES, Story


@pytest.mark.requirement("000.stream.token-messages-suppressed")
@pytest.mark.parametrize("name", STORIES)
def test_tokens_appear_only_for_those_who_ask_for_them(name: str) -> None:
    story = STORIES[name]()
    assert of_type(told(story), "text_delta") == []
    live = told(story, live=True)
    spoken = [e for e in story.log if isinstance(e, m.LlmToken) and (e.parent_id or "").startswith("r")]
    assert [line["data"] for line in of_type(live, "text_delta")] == [
        e.payload.text for e in spoken if e.payload.kind == "text"
    ]
    assert {line["level"] for line in of_type(live, "text_delta")} <= {OUTER}


def test_text_that_was_shown_live_and_abandoned_is_taken_back() -> None:
    found = told(STORIES["troubled"](), live=True)
    taken_back = [line["message_id"] for line in of_type(found, "aborted") if "message_id" in line]
    assert taken_back == ["a", "e", "b"]
    assert {line["abortion_reason"] for line in of_type(found, "aborted")} == {RETRACTED}


def test_a_message_that_gets_another_id_settles_what_was_shown_under_the_first() -> None:
    story = Story().begin().think("a").token("a", "blue").thought("a", message_id="true-id")
    found = told(story.says("assistant", "blue", "true-id").end(), live=True)
    assert [(line["type"], line.get("message_id")) for line in found][1:] == [("text_delta", "a"), ("text_final", "a")]


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("live", [False, True])
def test_no_text_is_doubled_once_previews_are_settled(name: str, live: bool) -> None:
    """As a front end reads it: a preview goes when its message is settled or taken back."""
    story = STORIES[name]()
    previews: dict[str, str] = {}
    shown: list[str] = []
    for line in told(story, live=live):
        if line["level"] == OUTER and line["type"] == "text_delta":
            previews[line["message_id"]] = previews.get(line["message_id"], "") + line["data"]
        elif line["level"] == OUTER and "message_id" in line:
            previews.pop(line["message_id"], None)
            shown += [line["data"]] if line["type"] in ("text_step", "text_final") and "aborted" not in line else []
    assert not previews
    said = [e.payload for e in story.log if isinstance(e, m.Message) and e.payload.role == "assistant"]
    assert "".join(shown) == "".join(part.text for one in said for part in one.content if isinstance(part, p.TextPart))
