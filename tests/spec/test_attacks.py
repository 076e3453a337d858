"""Texts that must not load: each is refused quickly, in little memory, with a reason, and without running anything."""

import json
import os
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from cProfile import Profile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.errors import SpecError
from stellwerk.spec.load import load_operator, load_system
from stellwerk.spec.resolve import admit
from tests.spec.attack_texts import ATTACKS, CASES, CATALOGUE, LARGE

# Pydantic finishes models that name each other when they are first used; that is no effect of an attack.
admit(load_system((Path(__file__).parent / "two_agents.yaml").read_bytes(), source="first"), CATALOGUE)

_armed: list[str] | None = None


def _watch(event: str, _: object) -> None:
    if _armed is not None and event.split(".")[0] in ("os", "subprocess", "open", "import", "exec", "socket", "pickle"):
        _armed.append(event)


sys.addaudithook(_watch)


@contextmanager
def watched() -> Iterator[list[str]]:
    """What Python itself reports of files, processes, sockets, imports and code."""
    global _armed
    seen: list[str] = []
    _armed = seen
    try:
        yield seen
    finally:
        _armed = None


def test_the_watch_sees_what_a_tag_could_do() -> None:
    with watched() as effects:
        os.system("true")
    assert effects == ["os.system"]


def test_there_are_many_attacks() -> None:
    assert len(ATTACKS) >= 100


@pytest.mark.parametrize("name", CASES)
def test_an_attack_is_refused_with_a_reason_in_few_steps_and_runs_nothing(name: str) -> None:
    """Calls are counted, not time: a busy machine cannot change them. A million take 120 ms (``make bench``)."""
    text, reason = CASES[name]
    calls = Profile()
    with pytest.raises(SpecError) as refused, watched() as effects, calls:
        admit(load_system(text, source="attack.yaml"), CATALOGUE)
    assert effects == []
    assert reason in str(refused.value)
    assert str(refused.value).startswith("attack.yaml")
    assert len(str(refused.value)) < 20_000
    assert sum(entry.callcount for entry in calls.getstats()) < 650_000


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("bomb_")] + list(LARGE))
def test_a_bomb_takes_little_memory(name: str) -> None:
    text, _ = CASES[name]
    tracemalloc.start()
    try:
        with pytest.raises(SpecError):
            admit(load_system(text, source="attack.yaml"), CATALOGUE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * 2**20


def loads_or_is_refused(text: str | bytes) -> None:
    for load in (load_system, load_operator):
        try:
            load(text, source="any.yaml")
        except SpecError as error:
            assert error.problems
            assert str(error).startswith("any.yaml")


yaml_pieces = st.sampled_from(
    ["a", "key: ", "\n", "  ", "- ", "[", "]", "{", "}", ",", ": ", "? ", '"', "'", "\\", "\\x", "#", "|", ">-2", "&a "]
    + ["*a", "!", "!!", "!<", "%", "---", "...", "\t", "\0", "\x85", "\u2028", "0x", "1e", "<<: ", "${", "\r", "\ud800"]
    + [
        "version: 1\n",
        "system: {name: a}\n",
        "agents:\n",
        "  - id: a\n",
        "    tools: {allow: [",
        "~",
        ".nan",
        "'\\UFFFFFFFF'",
    ]
)


@given(st.text() | st.lists(yaml_pieces, max_size=30).map("".join))
def test_any_text_loads_or_is_refused(text: str) -> None:
    loads_or_is_refused(text)


@given(st.binary())
def test_any_bytes_load_or_are_refused(content: bytes) -> None:
    loads_or_is_refused(content)


words = st.sampled_from(
    ["version", "system", "name", "agents", "id", "tools", "allow", "model", "script", "steps", "when"]
)
data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | words,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(words | st.text(max_size=10), inner, max_size=5),
    max_leaves=30,
)


@given(data)
def test_any_data_as_json_loads_or_is_refused(value: object) -> None:
    loads_or_is_refused(json.dumps(value))


@given(data.map(lambda value: {"version": 1, "system": {"name": "a"}, "agents": [{"id": "a", "model": value}]}))
def test_any_data_within_a_system_loads_or_is_refused(value: object) -> None:
    loads_or_is_refused(json.dumps(value))
