"""The plan of a workflow: which documents are expected, who does which task, and what must hold in it. Pure.

The field names are a contract with front ends, which read the plan as it is.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stellwerk.errors import PlanRefused

EVERYTHING = "*"
"""Stands among input documents for all that the user has given."""
MOST_TASKS = 50
_LONGEST_REPLY = 200_000

FileName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^/\\\x00-\x1f]+$")]


class _Part(BaseModel):
    """Frozen; what a model adds of its own accord is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class FinalDocument(_Part):
    name: FileName
    """With extension, as a task writes it."""
    description: Annotated[str, Field(max_length=2000)] = ""


class PlannedTask(_Part):
    agent: str
    """Who does it."""
    prompt: Annotated[str, Field(min_length=1, max_length=20_000)]
    """What is to be done, in the user's language, with everything the agent has to know for it."""
    inputDocuments: list[FileName] = []
    """Documents it reads: given by the user, or written by another task, which then comes first."""
    outputDocuments: list[FileName] = []
    """Documents it writes; no other task writes one of the same name."""


class Workplan(_Part):
    objFinalDocuments: list[FinalDocument] = []
    """The documents that the user is to get in the end; each is written by a task."""
    objWorkplan: Annotated[list[PlannedTask], Field(max_length=MOST_TASKS)] = []
    """The tasks. None, if the answer needs no work."""
    objUserResponse: Annotated[str, Field(min_length=1, max_length=20_000)]
    """What the user is told now, in his language: what will be done, or the answer itself."""
    userLanguage: Annotated[str, Field(max_length=20)] = ""
    """The language of the user, as a code such as en or de."""

    def waves(self) -> list[list[int]]:
        """The tasks, by number: those of one wave wait for nothing but the waves before."""
        sorter, found = TopologicalSorter(self.before()), list[list[int]]()
        sorter.prepare()
        while sorter.is_active():
            found.append(sorted(sorter.get_ready()))
            sorter.done(*found[-1])
        return found

    def order(self) -> list[int]:
        return [n for wave in self.waves() for n in wave]

    def before(self) -> dict[int, set[int]]:
        """For each task, by number, those that come first because they write what it reads."""
        writers = {name.casefold(): n for n, task in enumerate(self.objWorkplan) for name in task.outputDocuments}
        return {
            n: {writers[name.casefold()] for name in task.inputDocuments if name.casefold() in writers} - {n}
            for n, task in enumerate(self.objWorkplan)
        }


def schema() -> str:
    """For the model that makes the plan."""
    return json.dumps(Workplan.model_json_schema(), ensure_ascii=False)


def read_plan(reply: str, *, agents: Collection[str], there: Sequence[str] = (), given: Sequence[str] = ()) -> Workplan:
    """The plan in a model's reply.

    ``there`` are the names and ids of documents that are there already; ``given`` are those that ``*`` stands for.

    Raises:
        PlanRefused: it is none, or does not fit; says everything that is wrong with it.
    """
    plan = _parsed(reply)
    plan = plan.model_copy(update={"objWorkplan": [_spelt_out(task, given) for task in plan.objWorkplan]})
    if wrong := [*_objections(plan, agents, there)]:
        raise PlanRefused("; ".join(wrong[:10]))
    return plan


def _parsed(reply: str) -> Workplan:
    text = reply[:_LONGEST_REPLY]
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end < begin:
        raise PlanRefused("there is no JSON object in the reply")
    try:
        return Workplan.model_validate_json(text[begin : end + 1])
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, e['loc'])) or 'the reply'}: {e['msg']}" for e in error.errors()[:10])
        raise PlanRefused("; ".join(wrong)) from error


def _spelt_out(task: PlannedTask, given: Sequence[str]) -> PlannedTask:
    named = [one for name in task.inputDocuments for one in (given if name == EVERYTHING else [name])]
    return task.model_copy(update={"inputDocuments": list(dict.fromkeys(named))})


def _objections(plan: Workplan, agents: Collection[str], there: Sequence[str]) -> Iterator[str]:
    writers: dict[str, int] = {}
    for n, task in enumerate(plan.objWorkplan, 1):
        if task.agent not in agents:
            yield f"task {n}: there is no agent {task.agent!r}; there are: {', '.join(agents)}"
        for name in task.outputDocuments:
            if writers.setdefault(name.casefold(), n) != n:
                yield f"task {n} writes {name!r}, which task {writers[name.casefold()]} writes, too"
    names = {name.casefold() for name in there}
    for n, task in enumerate(plan.objWorkplan, 1):
        for name in task.inputDocuments:
            if name.casefold() not in writers and name.casefold() not in names:
                yield f"task {n} reads {name!r}, which is not there and which no task writes"
    for wanted in plan.objFinalDocuments:
        if wanted.name.casefold() not in writers:
            yield f"no task writes the final document {wanted.name!r}"
    yield from _circles(plan.before())


def _circles(before: Mapping[int, set[int]]) -> Iterator[str]:
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        numbers = " → ".join(str(n + 1) for n in error.args[1])
        yield f"these tasks wait for each other: {numbers}"


def plain(plan: Workplan) -> dict[str, Any]:
    """As the log holds it."""
    return plan.model_dump(mode="json")
