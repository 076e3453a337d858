"""Texts that must not load: each is refused quickly, in little memory, with a reason, and without running anything.

Each file in ``attacks`` says in its first line what must be told. What would be too large for a file is made here.
"""

import json
import os
import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.errors import SpecError
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.load import SIZE_LIMIT, load_operator, load_system, read_system
from stellwerk.spec.resolve import admit

NEAR_NAMES = [f"{'a' * 59}{n:03}" for n in range(199)]
CATALOGUE = Catalogue(
    tools={"search": "search"} | {f"b{name}": f"b{name}" for name in NEAR_NAMES}, providers=("scripted", "openai")
)
ATTACKS = sorted((Path(__file__).parent / "attacks").glob("*.yaml"))
ROOM = SIZE_LIMIT - 100


def nested(inner: str, key: str, depth: int) -> str:
    return f"{{{key}: " * depth + f"[{inner}]" + "}" * depth + ","


def near_misses(names: Sequence[str]) -> str:
    """Each wrong name is like each of many right ones."""
    agents = "".join(f"- {{id: {name}, role: sub-agent, mission: x}}\n" for name in NEAR_NAMES)
    root = f"- {{id: root, mission: x, tools: {{allow: [{', '.join(names)}]}}}}\n"
    return f"version: 1\nsystem: {{name: x}}\nagents:\n{root}{agents}"


LARGE: dict[str, tuple[str | bytes, str]] = {
    "10 MiB in one text": ("a: " + "x" * 10_000_000, "more than 256 KiB"),
    "10 MiB of bytes": (b"\0" * 10_000_000, "more than 256 KiB"),
    "100,000 keys": ("".join(f"k{n}: 1\n" for n in range(100_000)), "more than 256 KiB"),
    "four bytes each": ("a: " + "😀" * (SIZE_LIMIT // 2), "more than 256 KiB"),
    "keys up to the limit": ("".join(f"k{n}: 1\n" for n in range(ROOM // 10)), "more than 3000"),
    "keys in braces": ("{" + "".join(f"k{n}: 1," for n in range(ROOM // 10)) + "}", "more than 3000"),
    "numbers in brackets": ("[" + "1," * (ROOM // 2) + "]", "more than 3000"),
    "keys without values": ("".join(f"k{n}:\n" for n in range(3000)), "more than 3000"),
    "depth in both styles": ("- " * 12 + "[" * 12 + "]" * 12, "more than 20 deep"),
    "the same key again and again": ("a: 1\n" * 100, "stands here twice"),
    "empty items": ("-\n" * (ROOM // 2), "more than 3000"),
    "depth 200,000 in brackets": ("[" * 200_000, "more than 20 deep"),
    "depth in brackets with company": ("[x, " * (ROOM // 4), "more than 20 deep"),
    "depth in braces": ("{a: " * (ROOM // 4), "more than 20 deep"),
    "depth in dashes": ("- " * (ROOM // 2), "more than 20 deep"),
    "depth in questions": ("? " * (ROOM // 2), "more than 20 deep"),
    "one long word": ("a: " + "x" * ROOM, "more than 4096 characters"),
    "one long quoted text": ("a: '" + "x" * ROOM + "'", "is missing"),
    "one long text that never ends": ('a: "' + "x" * ROOM, "this is not YAML"),
    "short words without end": ("a: " + "x " * (ROOM // 2), "too intricate"),
    "short lines without end": ("a: |\n" + "  x\n" * (ROOM // 4), "too intricate"),
    "folded lines without end": ("a: >\n" + "  x\n" * (ROOM // 4), "too intricate"),
    "plain lines without end": ("a:\n" + "  x\n" * (ROOM // 4), "too intricate"),
    "quotes without end": ("a: '" + "''" * (ROOM // 2) + "'", "too intricate"),
    "only comments": ("#\n" * (ROOM // 2), "version: this is missing"),
    "only blank lines": ("\n" * ROOM, "version: this is missing"),
    "only spaces": (" " * ROOM, "version: this is missing"),
    "many documents": ("---\n" * (ROOM // 4), "more than one document"),
    "many tags": ("- !!python/name:os.system\n" * (ROOM // 26), "anchors, aliases and tags are not read"),
    "an anchor without end": ("a: &" + "A" * ROOM, "more than 4096 characters"),
    "a key without end": ("? " + "k " * 2000 + "\n: {a: 1}", "at most 100 characters"),
    "long paths everywhere": ("[" + nested("1, 2, 3", "k" * 98, 18) * 72 + "]", "expected a mapping"),
    "unknown keys": ("".join(f"k{n}: 1\n" for n in range(1490)), "there is no key 'k0'"),
    "nearly known keys": ("".join(f"{'agents' * 10}{n}: 1\n" for n in range(1490)), "there is no key"),
    "dollars everywhere": ("".join('- "${"\n' for _ in range(2990)), "nothing is expanded here"),
    "deep keys": ("[" + f"{nested('1', 'k' * 98, 17)}" * 80 + "]", "expected a mapping"),
    "near misses of agents": (
        near_misses([f"{name[:-4]}b{n}" for n, name in enumerate(NEAR_NAMES)]),
        "is not registered",
    ),
    "near misses of tools": (near_misses([f"bb{name[2:]}" for name in NEAR_NAMES]), "is not registered"),
    "UTF-16": ("version: 1".encode("utf-16"), "not UTF-8"),
    "UTF-32": ("version: 1".encode("utf-32"), "not UTF-8"),
    "Latin-1": ("mission: schön".encode("latin-1"), "not UTF-8"),
    "an overlong slash": (b"a: \xc0\xaf", "not UTF-8"),
    "a surrogate in UTF-8": (b"a: \xed\xa0\x80", "not UTF-8"),
    "a surrogate in a string": ("a: \ud800", "not UTF-8"),
}
CASES = {path.stem: (path.read_bytes(), path.read_text("utf-8").splitlines()[0][11:]) for path in ATTACKS} | LARGE

# Pydantic finishes models that name each other when they are first used; that is no effect of an attack.
admit(read_system((Path(__file__).parent / "two_agents.yaml").read_bytes(), source="first"), CATALOGUE)

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
def test_an_attack_is_refused_with_a_reason_and_runs_nothing(name: str) -> None:
    text, reason = CASES[name]
    with pytest.raises(SpecError) as refused, watched() as effects:
        admit(read_system(text, source="attack.yaml"), CATALOGUE)
    assert effects == []
    assert reason in str(refused.value)
    assert str(refused.value).startswith("attack.yaml")
    assert len(str(refused.value)) < 20_000


@pytest.mark.parametrize("name", CASES)
def test_an_attack_is_refused_in_few_steps(name: str) -> None:
    """Calls are counted, not time: a busy machine cannot change them. A million take 60 ms (``make bench``)."""
    text, _ = CASES[name]
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        admit(read_system(text, source="attack.yaml"), CATALOGUE)
    except SpecError:
        pass
    finally:
        sys.setprofile(before)
    assert calls < 1_300_000


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("bomb_")] + list(LARGE))
def test_a_bomb_takes_little_memory(name: str) -> None:
    text, _ = CASES[name]
    tracemalloc.start()
    try:
        with pytest.raises(SpecError):
            admit(read_system(text, source="attack.yaml"), CATALOGUE)
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
