"""All problems of shape are reported at once; the rules of meaning apply to a document of the right shape."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.errors import SpecError
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.load import load_system
from stellwerk.spec.report import report
from stellwerk.spec.resolve import admit, resolve

CATALOGUE = Catalogue(
    tools={"search": "search", "send": "send"},
    graphs=("desk",),
    providers=("scripted", "openai"),
    keys=("scripted", "openai"),
    effects={"search": "read", "send": "external"},
)


def problems_of(text: str) -> list[str]:
    with pytest.raises(SpecError) as refused:
        admit(load_system(text, source="s.yaml"), CATALOGUE)
    return [problem.sentence("s.yaml") for problem in refused.value.problems]


def test_all_problems_of_shape_are_reported_and_nothing_else() -> None:
    text = """version: "1"
system: {name: team, default_model: {provider: opnai, model: gpt}}
agents:
  - id: lead
    max_steps: "20"
    tools: {allow: [reader, searc, "os:system", search]}
  - id: reader
    role: sub-agent
    max_stepps: 3
    mission: send ${HOME}
  - mission: This one has no id.
"""
    assert [line.split(";")[0] for line in problems_of(text)] == [
        "s.yaml:1:1: version: found '1'",
        "s.yaml:5:5: agents[0].max_steps: found '20'",
        "s.yaml:6:36: agents[0].tools.allow[2]: found 'os:system', which looks like code to import: "
        "only the operator's file (--config) says what is run, imported or reached",
        "s.yaml:9:5: agents[1].max_stepps: there is no key 'max_stepps' here",
        "s.yaml:10:14: agents[1].mission: found '${HOME}'",
        "s.yaml:11:5: agents[2].id: this is missing",
    ]


def test_all_problems_of_meaning_are_reported_once_the_shape_is_right() -> None:
    text = """version: 1
system: {name: team, default_model: {provider: opnai, model: gpt}}
agents:
  - id: lead
    tools: {allow: [reader, searc, search]}
    tool_call_limits: {fetch: 1}
  - id: reader
    role: sub-agent
    tools: {allow: [lead, writer]}
  - {id: reader, role: sub-agent}
  - {id: writer, role: sub-agent, kind: graph, graph: desc}
"""
    assert [line.split(";")[0] for line in problems_of(text)] == [
        "s.yaml:2:38: system.default_model.provider: there is no provider 'opnai'",
        "s.yaml:5:29: agents[0].tools.allow[1]: the tool 'searc' is not registered",
        "s.yaml:6:24: agents[0].tool_call_limits.fetch: 'lead' is not allowed the tool 'fetch'",
        "s.yaml:9:21: agents[1].tools.allow[0]: these agents call each other in a circle: lead → reader → lead",
        "s.yaml:10:6: agents[2].id: agents[1] is called 'reader' as well",
        "s.yaml:11:48: agents[3].graph: the operator has registered no graph 'desc' (--config)",
    ]


def test_check_reports_a_malformed_system_without_a_tree() -> None:
    text = "version: 1\nsystem: {name: s}\nagents:\n- {id: a, max_stps: 1, tools: {allow: [a, searc]}}\n"
    made = report(text, source="s.yaml", catalogue=CATALOGUE)
    assert ["".join(piece for piece, _ in line) for line in made.lines] == [
        "error: s.yaml:4:11: agents[0].max_stps: there is no key 'max_stps' here; did you mean 'max_steps'?",
        "s.yaml: refused, 1 problem",
    ]


WHOLE: dict[str, Any] = {
    "version": 1,
    "system": {"name": "team", "default_model": {"provider": "openai", "model": "gpt"}, "quotas": {"steps": 5}},
    "agents": [
        {
            "id": "lead",
            "role": "orchestrator",
            "tools": {"allow": ["reader", "search"], "agents": {"reader": {"allowed_tools": ["search"]}}},
            "tool_call_limits": {"search": 1},
            "approvals": {"search": ["approve"]},
            "effects": ["read"],
        },
        {
            "id": "reader",
            "role": "sub-agent",
            "kind": "deep",
            "tools": {"allow": ["search", "send", "desk"]},
            "model": {"script": [{"steps": [{"calls": [{"call": "search"}]}]}]},
            "tool_timeouts": {"send": 1},
        },
        {"id": "desk", "role": "sub-agent", "kind": "graph", "graph": "desk", "completion_signal": "done"},
    ],
}


def test_the_example_is_sound() -> None:
    found = resolve(load_system(json.dumps(WHOLE), source="s").system, CATALOGUE)
    assert (found.problems, found.unregistered) == ((), ())


def fields(value: Any, way: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, part in inner for found in ((*way, key), *fields(part, (*way, key)))]


WRONG = [7.5, "!", [[]], {"?": 1}]
NAMES = ("tool_call_limits", "tool_timeouts", "approvals", "agents")
"""Mappings whose keys are names: another key there has the right shape."""
breaks = st.tuples(st.sampled_from(fields(WHOLE)), st.sampled_from([*WRONG, "another key"]))


def broken_at(data: Any, way: tuple[str | int, ...], wrong: object) -> None:
    *there, last = way
    try:
        for step in there:
            data = data[step]
        value = data[last]
    except (LookupError, TypeError):  # broken already
        return
    if wrong != "another key":
        data[last] = wrong
    elif isinstance(last, str) and not (there and there[-1] in NAMES):
        del data[last]
        data[f"{last}_x"] = value


@given(st.lists(breaks, min_size=1, max_size=4))
def test_however_a_sound_system_is_broken_each_field_is_reported_once(
    broken: list[tuple[tuple[str | int, ...], object]],
) -> None:
    data = copy.deepcopy(WHOLE)
    for way, wrong in broken:
        broken_at(data, way, copy.deepcopy(wrong))
    try:
        load_system(json.dumps(data), source="s")
    except SpecError as error:
        paths = [problem.field for problem in error.problems]
        assert paths and len(paths) == len(set(paths))
        assert all(problem.line and problem.column for problem in error.problems)
