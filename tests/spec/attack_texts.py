"""Texts that must not load, each with a part of its error.

Each file in ``attacks`` says that in its first line. What would be too large for a file is made here.
"""

from collections.abc import Sequence
from pathlib import Path

from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.yaml import SIZE_LIMIT

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
    "the same key again and again": ("a: 1\n" * 100, "occurs twice"),
    "empty items": ("-\n" * (ROOM // 2), "more than 3000"),
    "depth 200,000 in brackets": ("[" * 200_000, "more than 20 deep"),
    "depth in brackets with company": ("[x, " * (ROOM // 4), "more than 20 deep"),
    "depth in braces": ("{a: " * (ROOM // 4), "more than 20 deep"),
    "depth in dashes": ("- " * (ROOM // 2), "more than 20 deep"),
    "depth in questions": ("? " * (ROOM // 2), "more than 20 deep"),
    "one long word": ("a: " + "x" * ROOM, "is missing"),
    "one long quoted text": ("a: '" + "x" * ROOM + "'", "is missing"),
    "one long text that never ends": ('a: "' + "x" * ROOM, "this is not YAML"),
    "short words without end": ("a: " + "x " * (ROOM // 2), "is missing"),
    "short lines without end": ("a: |\n" + "  x\n" * (ROOM // 4), "is missing"),
    "folded lines without end": ("a: >\n" + "  x\n" * (ROOM // 4), "is missing"),
    "plain lines without end": ("a:\n" + "  x\n" * (ROOM // 4), "is missing"),
    "quotes without end": ("a: '" + "''" * (ROOM // 2) + "'", "is missing"),
    "only comments": ("#\n" * (ROOM // 2), "version: this is missing"),
    "only blank lines": ("\n" * ROOM, "version: this is missing"),
    "only spaces": (" " * ROOM, "version: this is missing"),
    "many documents": ("---\n" * (ROOM // 4), "more than one document"),
    "many tags": ("- !!python/name:os.system\n" * (ROOM // 26), "more than 3000"),
    "an anchor without end": ("a: &" + "A" * ROOM, "the anchor '&AAAA"),
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
    "a line that no key ends": ("a" * ROOM, "expected a mapping"),
    "commas without end": ("[" + "," * ROOM, "this is not YAML"),
    "indentation without end": ("".join(" " * n + "a:\n" for n in range(700)), "more than 20 deep"),
    "comments between brackets": ("[\n" + "#\n" * (ROOM // 2), "this is not YAML"),
    "a tag without end": ("a: !<" + "%41" * (ROOM // 3), "this is not YAML"),
    "escapes without end": ('a: "' + "\\u0041" * (ROOM // 6) + '"', "is missing"),
    "surrogate pairs without end": ('a: "' + "\\ud83d\\ude00" * (ROOM // 12) + '"', "is missing"),
    "backslashes without end": ('a: "' + "\\" * ROOM, "this is not YAML"),
}
CASES = {path.stem: (path.read_bytes(), path.read_text("utf-8").splitlines()[0][11:]) for path in ATTACKS} | LARGE
