"""What is left of a document without what is malformed in it, so that all else that is wrong is told as well.

A field goes alone; where a required one is missing, the mapping around it goes.
The gaps are remembered: what a rule finds only because of one is not told.
"""

import copy
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from stellwerk.spec.document import Document, inside
from stellwerk.spec.model import AgentSystem
from stellwerk.spec.remedies import Flaw, flaws

_ROUNDS = 4
"""What was taken away can leave something too short, which then goes as well."""
_STAND_INS: Mapping[str, object] = {"version": 1, "system": {"name": "system"}, "system.name": "system"}
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_GONE = object()


@dataclass(frozen=True)
class Gaps:
    """Where something was taken away. All paths are those of the text as it was written."""

    gone: frozenset[str] = frozenset()
    misspelt_in: frozenset[str] = frozenset()
    """Mappings with a key that nobody knows: it may be meant for any of theirs."""
    written: Collection[str] = ()
    """Every field of the text."""
    kept: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """For each list that has become shorter: where its items stood."""
    _touched: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_touched", frozenset(above for path in self.gone for above in _upwards(path)))

    @property
    def nameless_agents(self) -> bool:
        """Agents are gone, because nobody can read what they are called: any name may be theirs."""
        return "agents" in self.kept

    def original(self, path: str) -> str:
        """The same field in the text."""
        return _written(_steps(path), self.kept)[1] if self.kept else path

    def took(self, path: str) -> bool:
        """The field itself is gone, or what it stood in."""
        return bool(self.gone) and any(above in self.gone for above in _upwards(self.original(path)))

    def sure(self, path: str) -> bool:
        """Whether we know what the text says of this: no part of it is gone, and no misspelt key is meant for it."""
        if not self.gone:
            return True
        path = self.original(path)
        return path not in self._touched and not any(map(self._doubtful, _upwards(path)))

    def _doubtful(self, path: str) -> bool:
        return path in self.gone or (path not in self.written and _parent(path) in self.misspelt_in)


NO_GAPS = Gaps()


@dataclass(frozen=True)
class Rest:
    """An agent system without what was malformed. It is there to be checked, and never to be built."""

    system: AgentSystem
    gaps: Gaps


def rest_of(document: Document, error: ValidationError) -> Rest | None:
    """None where too little is left to say anything about."""
    if not isinstance(document.data, dict):
        return None
    pruning = _Pruning(document)
    for _ in range(_ROUNDS):
        if not pruning.without(flaws(error, AgentSystem)):
            return None
        try:
            system = AgentSystem.model_validate(pruning.compact(), strict=True)
        except ValidationError as again:
            error = again
        else:
            return Rest(system, pruning.gaps())
    return None


def gaps_in(document: Document) -> Gaps:
    """Of a document in which texts were refused, and which is whole but for them."""
    return Gaps(gone=_spoiled(document), written=document.places.keys()) if document.problems else NO_GAPS


class _Pruning:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._data = copy.deepcopy(document.data)
        self._gone: set[str] = set()
        self._misspelt_in: set[str] = set()
        self._kept: dict[str, Sequence[int]] = {}

    def gaps(self) -> Gaps:
        gone = self._gone | _spoiled(self._document)
        written = self._document.places.keys()
        return Gaps(frozenset(gone), frozenset(self._misspelt_in), written, self._kept)

    def without(self, found: Iterable[Flaw]) -> bool:
        """Take all of this away; False if that leaves nothing."""
        for flaw in found:
            steps, path = _written(flaw.steps, self._kept)
            if path not in _STAND_INS and flaw.type == "missing":
                steps, path = _written(flaw.steps[:-1], self._kept)
            if path in ("", "agents"):
                return False
            if flaw.type == "extra_forbidden":
                self._misspelt_in.add(_parent(path))
            self._take(steps, path)
        return True

    def _take(self, steps: Sequence[str | int], path: str) -> None:
        self._gone.add(path)
        around = self._data
        for step in steps[:-1]:
            around = _item(around, step)
        if isinstance(around, list) and isinstance(steps[-1], int):
            around[steps[-1]] = _GONE
        elif isinstance(around, dict):
            around.pop(steps[-1], None)
            if path in _STAND_INS:
                around[steps[-1]] = copy.deepcopy(_STAND_INS[path])

    def compact(self) -> object:
        """The data without the items of lists that are gone."""
        self._kept = {}
        return self._compacted(self._data, "")

    def _compacted(self, value: object, where: str) -> object:
        if isinstance(value, dict):
            return {key: self._compacted(part, inside(where, key)) for key, part in value.items()}
        if not isinstance(value, list):
            return value
        kept = [n for n, part in enumerate(value) if part is not _GONE]
        if len(kept) < len(value):
            self._kept[where] = kept
        return [self._compacted(value[n], inside(where, new)) for new, n in enumerate(kept)]


def _item(value: object, step: str | int) -> object:
    """What stands there; nothing, where something around it is gone already."""
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _written(steps: Iterable[str | int], kept: Mapping[str, Sequence[int]]) -> tuple[list[str | int], str]:
    """The way to a field in the text, from the way to it in what is left."""
    there, now, was = list[str | int](), "", ""
    for step in steps:
        before = kept[now][step] if isinstance(step, int) and now in kept else step
        there.append(before)
        now, was = inside(now, step), inside(was, before)
    return there, was


def _steps(path: str) -> Iterator[str | int]:
    return (int(index) if index else name for index, name in _STEP.findall(path))


def _upwards(path: str) -> Iterator[str]:
    while path:
        yield path
        path = _parent(path)


def _parent(path: str) -> str:
    return path[: max(path.rfind("."), path.rfind("["), 0)]


def _spoiled(document: Document) -> frozenset[str]:
    return frozenset(problem.field for problem in document.problems)
