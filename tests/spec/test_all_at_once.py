"""Problems of form and problems of meaning are told together: what is malformed is set aside, the rest is checked."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.errors import SpecError
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.load import load_system, read_system
from stellwerk.spec.report import report
from stellwerk.spec.resolve import admit, resolve

CATALOGUE = Catalogue(
    tools={"search": "search", "send": "send"},
    graphs=("desk",),
    providers=("scripted", "openai"),
    keys=("scripted", "openai"),
    effects={"search": "read", "send": "external"},
)


def told(text: str) -> list[str]:
    with pytest.raises(SpecError) as refused:
        admit(read_system(text, source="s.yaml"), CATALOGUE)
    return [problem.sentence("s.yaml") for problem in refused.value.problems]


def test_everything_that_is_wrong_is_told_in_one_go() -> None:
    text = """version: "1"
system: {name: team, default_model: {provider: opnai, model: gpt}}
agents:
  - id: lead
    max_steps: "20"
    tools: {allow: [reader, searc, "os:system", search]}
    tool_call_limits: {fetch: 1}
  - id: reader
    role: sub-agent
    max_stepps: 3
    tools: {allow: [lead, writer]}
  - mission: This one has no id.
  - {id: reader, role: sub-agent}
  - {id: writer, role: sub-agent, kind: graphs, graph: desk}
"""
    assert [line.split(";")[0] for line in told(text)] == [
        "s.yaml:1:1: version: found '1'",
        "s.yaml:2:38: system.default_model.provider: there is no provider 'opnai'",
        "s.yaml:5:5: agents[0].max_steps: found '20'",
        "s.yaml:6:29: agents[0].tools.allow[1]: the tool 'searc' is not registered",
        "s.yaml:6:36: agents[0].tools.allow[2]: found 'os:system', which looks like code to import: "
        "only the operator's file (--config) says what is run, imported or reached",
        "s.yaml:10:5: agents[1].max_stepps: there is no key 'max_stepps' here",
        "s.yaml:11:21: agents[1].tools.allow[0]: these agents call each other in a circle: lead → reader → lead",
        "s.yaml:12:5: agents[2].id: this is missing",
        "s.yaml:13:6: agents[3].id: agents[1] is called 'reader' as well",
        "s.yaml:14:35: agents[4].kind: found 'graphs'",
    ], "and not that fetch is no tool of lead's, because a part of its list is gone"


FOLLOW_UPS = {
    "a role that cannot be read": "- {id: a, role: boss}\n- {id: b, role: orchestrator}",
    "a role under another key": "- {id: a}\n- {id: b, rol: sub-agent}",
    "an orchestrator that cannot be read": "- {id: a, role: orchestrator, kind: 7, id: ''}\n- {id: b, role: sub-agent}",
    "an agent that others name": (
        "- {id: a, tools: {allow: [b], agents: {b: {allowed_tools: []}}}, max_steps: '3'}\n- {idd: b, role: sub-agent}"
    ),
    "a script that cannot be played": "- {id: a, tools: {allow: [b]}, model: {script: [{}]}}\n- {id: b, role: 1}",
    "a list of tools that is a text": "- {id: a, tools: {allow: search}, approvals: {search: []}}",
    "a list of tools under another key": "- {id: a, tools: {allowed: [search]}, tool_timeouts: {search: 1}}",
    "a mapping of tools under another key": "- {id: a, tool: {allow: [search]}, tool_timeouts: {search: 1}}",
    "tools of a sub-agent": (
        "- {id: a, tools: {allow: [b], agents: {b: {allowed_tools: [search]}}}}\n"
        "- {id: b, role: sub-agent, tools: {allowed: [search]}}"
    ),
    "a kind that cannot be read": "- {id: a, kind: grahp, graph: desk}",
    "a graph that cannot be read": "- {id: a, kind: graph, graph: [desk]}",
    "a model under another key": "- {id: a, model: {provider: openai, model_name: gpt}}",
    "effects that cannot be read": "- {id: a, effects: [read, outside], tools: {allow: [send]}}",
    "terms that cannot be read": (
        "- {id: a, effects: [read], tools: {allow: [b], agents: {b: {allowed_tools: [search, '!']}}}}\n"
        "- {id: b, role: sub-agent, tools: {allow: [search, send]}}"
    ),
    "a text that is refused": "- {id: a, mission: '${HOME}'}",
}


@pytest.mark.parametrize("name", FOLLOW_UPS)
def test_what_follows_only_from_a_malformed_field_is_not_told(name: str) -> None:
    text = f"version: 1\nsystem: {{name: s}}\nagents:\n{FOLLOW_UPS[name]}\n"
    with pytest.raises(SpecError) as refused:
        load_system(text, source="s.yaml")
    assert told(text) == [problem.sentence("s.yaml") for problem in refused.value.problems]


def test_an_agent_without_a_name_may_be_meant_by_any_name_that_is_like_no_other() -> None:
    agents = "- {id: a, tools: {allow: [reader, searc]}}\n- {idd: reader, role: sub-agent}\n"
    assert [line.split(": ", 1)[1] for line in told(f"version: 1\nsystem: {{}}\nagents:\n{agents}")] == [
        "system.name: this is missing; add it",
        "agents[0].tools.allow[1]: the tool 'searc' is not registered; did you mean 'search'?",
        "agents[1].id: this is missing; add it",
        "agents[1].idd: there is no key 'idd' here; did you mean 'id'?",
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "version: 1", "version: 1\nsystem: {name: s}\nagents: {id: a}\n", "agents: [1]"]
)
def test_where_nothing_is_left_there_is_nothing_more_to_say(text: str) -> None:
    with pytest.raises(SpecError):
        read_system(text, source="s.yaml")


def test_check_tells_them_together_and_draws_no_tree_of_a_half() -> None:
    text = "version: 1\nsystem: {name: s}\nagents:\n- {id: a, max_stps: 1, tools: {allow: [a, searc]}}\n"
    made = report(text, source="s.yaml", catalogue=CATALOGUE)
    assert ["".join(piece for piece, _ in line) for line in made.lines] == [
        "warning: s.yaml:4:43: agents[0].tools.allow[1]: the tool 'searc' is not registered; did you mean 'search'?",
        "error: s.yaml:4:11: agents[0].max_stps: there is no key 'max_stps' here; did you mean 'max_steps'?",
        "error: s.yaml:4:40: agents[0].tools.allow[0]: these agents call each other in a circle: a → a; "
        "remove one of the steps",
        "s.yaml: refused, 2 problems",
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


def test_the_example_is_sound_as_long_as_nobody_breaks_it() -> None:
    found = resolve(load_system(json.dumps(WHOLE), source="s"), CATALOGUE)
    assert (found.problems, found.unregistered) == ((), ())


def fields(value: Any, way: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, part in inner for found in ((*way, key), *fields(part, (*way, key)))]


WRONG = [7.5, "!", [[]], {"?": 1}]
"""Each is malformed, or means no more than another name would."""
NAMES = ("tool_call_limits", "tool_timeouts", "approvals", "agents")
"""Whose keys are names: another one would be a problem of meaning."""
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
def test_however_a_sound_system_is_broken_nothing_is_told_but_what_is_malformed(
    broken: list[tuple[tuple[str | int, ...], object]],
) -> None:
    data = copy.deepcopy(WHOLE)
    for way, wrong in broken:
        broken_at(data, way, copy.deepcopy(wrong))
    try:
        loaded = read_system(json.dumps(data), source="s")
    except SpecError:
        return
    found = resolve(loaded.system, CATALOGUE, loaded.gaps)
    assert (found.problems, found.unregistered) == ((), ())
