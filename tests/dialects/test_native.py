"""Profiles: what of a log a reader sees, and that he can come back with any position he has."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.dialects.native import LONGEST_OUTPUT, Profile, shown, trimmed
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, LlmStart, LlmToken, ToolUpdate, decode, encode
from stellwerk.envelope.payloads import Json, ModelCalled, ToolUpdated
from tests.golden.files import BY_NAME, stored
from tests.samples import place

HIDDEN = {"subgraph_checkpoint", "update"}
PROFILES: tuple[Profile, ...] = get_args(Profile)
each_run = pytest.mark.parametrize("name", BY_NAME)


def log_of(envelopes: list[Envelope]) -> list[Stored]:
    return [Stored(position, encode(envelope)) for position, envelope in enumerate(envelopes, 1)]


def kind(one: Stored) -> str:
    return str(decode(one.body).__struct_config__.tag)


def output(text: str | None, phase: str = "output", data: object = None) -> Stored:
    payload = ToolUpdated(phase="args" if phase == "args" else "output", text=text, data=data)
    return Stored(7, encode(ToolUpdate(**place("tool", 2), payload=payload)))


def asked(prompt: list[Json] | None, **params: Json) -> Stored:
    payload = ModelCalled(model="big", message_id="llm", params=params, node="model", messages=prompt)
    return Stored(3, encode(LlmStart(**place("llm", 1), payload=payload)))


@pytest.mark.requirement("002.profile.debug")
@each_run
def test_debug_shows_all_that_is_stored(name: str) -> None:
    log = log_of(stored(name))
    assert shown(log, "debug") == log


@pytest.mark.requirement("002.backpressure.starts-and-ends-kept", "trust.I16")
@each_run
def test_a_user_sees_all_but_checkpoints_and_updates_each_where_it_was(name: str) -> None:
    log = log_of(stored(name))
    assert shown(log, "user") == [one for one in log if kind(one) not in HIDDEN]


@pytest.mark.requirement("trust.I16")
@each_run
def test_the_text_is_the_same_in_every_profile(name: str) -> None:
    for_user, for_debug = ([decode(one.body) for one in shown(log_of(stored(name)), p)] for p in PROFILES)
    assert [e for e in for_user if isinstance(e, LlmToken)] == [e for e in for_debug if isinstance(e, LlmToken)]


@each_run
def test_a_translator_is_fed_the_whole_log_in_every_profile(name: str) -> None:
    for profile in PROFILES:
        assert [one.position for one in trimmed(log_of(stored(name)), profile)] == [*range(1, len(stored(name)) + 1)]


@given(st.data())
def test_how_a_log_is_cut_into_batches_does_not_matter(data: st.DataObject) -> None:
    log = log_of(stored(data.draw(st.sampled_from(sorted(BY_NAME)))))
    cut = data.draw(st.integers(0, len(log)))
    assert shown(log[:cut], "user") + shown(log[cut:], "user") == shown(log, "user")


@pytest.mark.requirement("002.profile.user")
def test_a_user_sees_the_beginning_and_the_end_of_long_output() -> None:
    text = "a" * 5000 + "ö" * 5000
    (one,) = shown([output(text)], "user")
    update = decode(one.body)
    assert isinstance(update, ToolUpdate) and update.payload.text is not None
    half = LONGEST_OUTPUT // 2
    assert update.payload.text == f"{'a' * half}\n… {10_000 - LONGEST_OUTPUT} characters left out …\n{'ö' * half}"
    assert (one.position, update.call_id, update.seq) == (7, "tool", 2)
    assert trimmed([output(text)], "user") == [one]
    assert shown([output(text)], "debug") == trimmed([output(text)], "debug") == [output(text)]


def test_a_stored_prompt_is_for_debug_readers_only_and_the_rest_of_the_call_stays() -> None:
    prompt = [{"type": "system", "content": "You are secret."}, {"type": "human", "content": "hi"}]
    whole = asked(prompt, temperature=0)
    assert shown([whole], "user") == trimmed([whole], "user") == [asked(None, temperature=0)]
    assert shown([whole], "debug") == trimmed([whole], "debug") == [whole]


@pytest.mark.parametrize(
    "whole",
    [
        asked(None),
        asked(None, messages=["a parameter of this name"]),
        output("x" * LONGEST_OUTPUT),
        output("\n" * LONGEST_OUTPUT),
        output('{"text": "' + "x" * 9000, phase="args"),
        output(None, data={"event": "step", "data": "x" * 9000}),
    ],
    ids=["no prompt", "a parameter", "just long enough", "long only in bytes", "arguments", "data"],
)
def test_what_is_neither_long_output_nor_a_prompt_stays_as_it_is(whole: Stored) -> None:
    assert shown([whole], "user") == [whole]
