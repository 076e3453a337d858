"""What holds for every log: the reader of the AI SDK accepts its stream, and builds the messages of the history."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stellwerk.dialects.ai_sdk.messages import Answer, UIMessages
from stellwerk.dialects.base import translate
from stellwerk.dialects.registry import DIALECTS
from stellwerk.envelope.model import Envelope
from tests.dialects.random_logs import recovered
from tests.dialects.sample_logs import STORIES, positions
from tests.dialects.test_agui_all_logs import Wilder
from tests.golden.files import BY_NAME, stored
from tests.protocols.node import Node

Chunk = dict[str, Any]
LOGS = {name: make().checked() for name, make in STORIES.items()}


def streams(log: Sequence[Envelope]) -> list[list[Chunk]]:
    """The chunks of each message: what a client gets that resumes there."""
    found: list[list[Chunk]] = []
    for _, chunk in translate(DIALECTS["ai-sdk"].translator("s1"), positions(log)):
        if chunk["type"] == "start" and (not found or found[-1][0]["messageId"] != chunk["messageId"]):
            found.append([])
        found[-1].append(chunk)
    return found


def folded(log: Sequence[Envelope]) -> UIMessages:
    history = UIMessages()
    for position, envelope in positions(log):
        history.feed(position, envelope)
    return history


def answers(log: Sequence[Envelope]) -> list[Chunk]:
    """Messages that our fold makes of streams; with the texts that do not count, which no client can drop."""
    found = []
    for chunks in streams(log):
        answer = Answer(chunks[0]["messageId"])
        for chunk in chunks:
            if chunk["type"] != "data-retracted":
                answer.take(chunk)
        found.append(plain(answer.as_message()))
    return found


def plain(message: Chunk) -> Chunk:
    """Without what the versions of the client keep or drop as they like."""
    parts = json.loads(json.dumps(message["parts"]))
    for part in parts:
        part.pop("rawInput", None)
        if part.get("state") == "input-streaming" or part.get("errorText"):
            part.pop("input", None)  # partial JSON, as far as the client can read it
        if "approval" in part:
            part["approval"] = {"id": part["approval"]["id"]}
    return {**message, "parts": parts}


def check(sdk: Node, *logs: Sequence[Envelope]) -> None:
    wanted = [message for log in logs for message in answers(log)]
    read = sdk.call("read", streams=[chunks for log in logs for chunks in streams(log)])
    errors = [each["failure"] for each in read]
    said = [[c["errorText"] for c in chunks if c["type"] == "error"] for log in logs for chunks in streams(log)]
    assert errors == [texts[0] if texts else None for texts in said], "an error only where the run failed"
    assert [plain(each["message"]) for each in read] == wanted


def test_every_sample_and_every_recording(sdk: Node) -> None:
    check(sdk, *LOGS.values(), *(stored(name) for name in BY_NAME))


@pytest.mark.parametrize("name", LOGS)
def test_every_prefix_that_is_recovered(sdk: Node, name: str) -> None:
    check(sdk, *(recovered(LOGS[name][:length]) for length in range(1, len(LOGS[name]) + 1)))


@pytest.mark.parametrize("name", LOGS)
def test_chunks_that_were_sent_never_change(name: str) -> None:
    whole = [chunk for chunks in streams(LOGS[name]) for chunk in chunks]
    for length in range(len(LOGS[name])):
        cut = [chunk for chunks in streams(LOGS[name][:length]) for chunk in chunks]
        assert whole[: len(cut)] == cut


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_interleaving_cut_off_anywhere(sdk: Node, data: st.DataObject) -> None:
    machine = Wilder(data.draw)
    for _ in range(data.draw(st.integers(1, 30))):
        machine.step()
    if data.draw(st.booleans()):
        machine.finish()
    log = recovered(machine.story.checked())
    check(sdk, log)
    history = folded(log)
    assert [message["id"] for message in history.messages() if message["role"] == "assistant"] == [
        message["id"] for message in answers(log)
    ]
