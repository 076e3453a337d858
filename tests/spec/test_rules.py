"""Rules of effects, packages and model names, and ineffective settings: a system that passes can be built."""

from textwrap import dedent

import pytest

from stellwerk.errors import SpecError
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.load import load_system
from stellwerk.spec.model import AgentSpec
from stellwerk.spec.report import report
from stellwerk.spec.resolve import Resolved, resolve

CATALOGUE = Catalogue(
    tools={"search": "search", "find": "search", "save": "save", "mail": "mail", "plan_tasks": "plan_tasks"},
    mcp_servers=("files",),
    graphs=("desk",),
    providers=("scripted", "openai", "groq", "house"),
    keys=("scripted", "openai", "groq", "house"),
    effects={"search": "read", "save": "write", "mail": "external"},
    packages={"groq": "langchain-groq"},
)
DECIDED_BY_GRAPH = "a graph of your own decides this itself; take it away"


def text_of(agents: str, about: str = "{name: team}") -> str:
    return f"version: 1\nsystem: {about}\nagents:\n{dedent(agents)}\n"


def resolved(agents: str, about: str = "{name: team}") -> Resolved:
    return resolve(load_system(text_of(agents, about), source="team.yaml").system, CATALOGUE)


def problems(agents: str, about: str = "{name: team}") -> dict[str, str]:
    return {problem.field: problem.message for problem in resolved(agents, about).problems}


def printed(agents: str, about: str = "{name: team}") -> list[str]:
    made = report(text_of(agents, about), source="team.yaml", catalogue=CATALOGUE)
    return ["".join(piece for piece, _ in line) for line in made.lines]


SETTINGS = {
    "system_prompt": "Be kind.",
    "mission": "Help.",
    "max_steps": "3",
    "only_one_model_call": "true",
    "tool_call_limit": "3",
    "tool_call_limits": "{search: 1}",
    "tool_timeout": "3",
    "tool_timeouts": "{search: 1}",
    "model_retries": "1",
    "validation_prompt": "Is it kind?",
    "validation_rounds": "1",
    "final_prompt": "Sum up.",
    "final_prompt_after": "2",
    "approvals": "{search: [approve]}",
    "approvals_after_reading": "[write]",
    "effects": "[read]",
    "document_summaries": "model",
    "tools": "{allow: [no_such_tool]}",
    "model": "{provider: no_such_provider}",
}


DEFAULTS = {
    "input": "{topic: moon}",
    "config": "{configurable: {style: polite}}",
    "context": "{language: German}",
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_only_the_outermost_graph_has_a_config_context_and_input(name: str) -> None:
    setting = f"{name}: {DEFAULTS[name]}"
    assert problems(f"- {{id: a, kind: graph, graph: desk, {setting}}}") == {}
    for kind in ("react", "deep"):
        refused = problems(f"- {{id: a, kind: {kind}, {setting}}}")
        assert refused == {f"agents[0].{name}": "only an agent of kind graph has this; take it away"}
    below = f"""
    - {{id: a, tools: {{allow: [b]}}}}
    - {{id: b, role: sub-agent, kind: graph, graph: desk, {setting}}}
    """
    assert problems(below)[f"agents[1].{name}"].startswith("only the graph that gets the user's messages has this")


def test_a_secret_is_referred_to_in_config_and_context_and_nowhere_else() -> None:
    graph = (
        "- {id: a, kind: graph, graph: desk, config: {configurable: {key: '${secret:a}'}}, context: {k: '${secret:b}'}}"
    )
    assert problems(graph) == {}
    for elsewhere in (
        "description: '${secret:a}'",
        "input: {key: '${secret:a}'}",
        "config: {configurable: {k: '${HOME}'}}",
    ):
        with pytest.raises(SpecError, match="nothing is expanded here"):
            resolved(f"- {{id: a, kind: graph, graph: desk, {elsewhere}}}")


def test_these_are_all_settings_without_effect_on_a_graph() -> None:
    taken = {"id", "role", "kind", "graph", "description", "completion_signal", *DEFAULTS}
    assert AgentSpec.model_fields.keys() - taken == SETTINGS.keys()


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_without_effect_on_a_graph_is_refused_once(name: str) -> None:
    graph = f"- {{id: a, kind: graph, graph: desk, {name}: {SETTINGS[name]}}}"
    assert problems(graph) == {f"agents[0].{name}": DECIDED_BY_GRAPH}
    assert printed(graph)[:2] == ["team · version 1", "└── a · graph desk"]


def test_settings_with_an_effect_on_a_graph_are_accepted() -> None:
    graph = "- {id: a, role: orchestrator, kind: graph, graph: desk, description: A desk., completion_signal: done}"
    assert printed(graph, "{name: team, default_model: {provider: groq, model: x}}") == [
        "team · version 1",
        "├── default_model: groq:x",
        "└── a · graph desk · A desk.",
        "    └── completion_signal: done",
        "team.yaml: ready to register",
    ], "a graph needs no key and no package for a model that it does not use"


def test_terms_for_a_graph_are_refused() -> None:
    team = resolved("""
        - {id: a, tools: {allow: [b], agents: {b: {allowed_tools: [], mission_override: Be quick.}}}}
        - {id: b, role: sub-agent, kind: graph, graph: desk}
    """)
    assert [(problem.field, problem.message) for problem in team.problems] == [
        ("agents[0].tools.agents.b.allowed_tools", DECIDED_BY_GRAPH),
        ("agents[0].tools.agents.b.mission_override", DECIDED_BY_GRAPH),
    ]


EFFECTS = {
    "its own tool": ("- {id: a, effects: [read], tools: {allow: [find, mail]}}", "agents[0].tools.allow[1]"),
    "no effect at all": ("- {id: a, effects: [], tools: {allow: [find]}}", "agents[0].tools.allow[0]"),
    "a tool of a sub-agent": (
        "- {id: a, effects: [read], tools: {allow: [b]}}\n- {id: b, role: sub-agent, tools: {allow: [save]}}",
        "agents[1].tools.allow[0]",
    ),
    "a tool two levels down, forbidden by both above together": (
        """
        - {id: a, effects: [read, write], tools: {allow: [b]}}
        - {id: b, role: sub-agent, effects: [read, external], tools: {allow: [c]}}
        - {id: c, role: sub-agent, tools: {allow: [search, save]}}
        """,
        "agents[2].tools.allow[1]",
    ),
    "a graph, which may do anything": (
        "- {id: a, effects: [read, write], tools: {allow: [b]}}\n- {id: b, role: sub-agent, kind: graph, graph: desk}",
        "agents[0].tools.allow[0]",
    ),
    "an agent out of reach": (
        "- {id: a}\n- {id: b, role: sub-agent, effects: [read], tools: {allow: [save]}}",
        "agents[1].tools.allow[0]",
    ),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_a_tool_whose_effect_is_not_allowed_is_a_problem(name: str) -> None:
    agents, field = EFFECTS[name]
    found = problems(agents)
    assert list(found) == [field]
    assert "but it, or an agent that uses it, may only have: " in found[field]
    assert found[field].endswith("; take it away, or add the effect")


@pytest.mark.parametrize("rule, fields", [("write", []), ("external", ["agents[1].tools.allow[0]"])])
def test_a_workplan_that_could_not_ask_before_a_graph_acts_is_a_problem(rule: str, fields: list[str]) -> None:
    found = problems(f"""
        - {{id: a, approvals_after_reading: [{rule}], tools: {{allow: [b, c]}}}}
        - {{id: b, role: sub-agent, kind: workplan, tools: {{allow: [c]}}}}
        - {{id: c, role: sub-agent, kind: graph, graph: desk}}
    """)
    assert list(found) == fields
    assert all("hands tasks to the graph 'c' without asking" in message for message in found.values())


def test_an_effect_that_is_not_allowed_is_reported_with_all_names() -> None:
    assert problems("- {id: a, effects: [write, read], tools: {allow: [mail]}}") == {
        "agents[0].tools.allow[0]": "agent 'a' has the tool 'mail' of effect 'external', "
        "but it, or an agent that uses it, may only have: read, write; take it away, or add the effect"
    }


@pytest.mark.parametrize(
    "agents",
    [
        "- {id: a, effects: [read], tools: {allow: [find, plan_tasks, files_write]}}",
        "- {id: a, tools: {allow: [b]}}\n- {id: b, role: sub-agent, effects: [write], tools: {allow: [save]}}",
        """
        - {id: a, effects: [read], tools: {allow: [b], agents: {b: {allowed_tools: [find]}}}}
        - {id: b, role: sub-agent, tools: {allow: [search, mail]}}
        """,
        "- {id: a, tools: {allow: [b]}}\n- {id: b, role: sub-agent, kind: graph, graph: desk}",
    ],
    ids=["tools that fit, or are not known yet", "a narrower sub-agent", "a tool that was taken away", "a graph"],
)
def test_effects_that_fit_are_no_problem(agents: str) -> None:
    assert problems(agents) == {}


def test_a_package_that_is_not_installed_keeps_a_system_from_being_ready() -> None:
    agents = "- {id: a, model: {provider: Groq, model: llama}}\n- {id: b, role: sub-agent}"
    about = "{name: team, default_model: {provider: groq, model: llama}}"
    team = resolved(agents, about)
    assert [(missing.field, missing.message) for missing in team.uninstalled] == [
        (
            "agents[0].model.provider",
            "models of 'Groq' need a package that is not installed: pip install 'langchain-groq'",
        )
    ], "once, however many need it"
    assert printed(agents, about)[-1] == "team.yaml: sound, but 1 package not installed here"
    both = printed("- {id: a, tools: {allow: [paint]}}", about)
    assert both[-1] == "team.yaml: sound, but 1 tool not registered, 1 package not installed here"


@pytest.mark.parametrize(
    "agents, about, field",
    [
        ("- {id: a, model: {provider: openai}}", "{name: t}", "agents[0].model.model"),
        ("- {id: a, model: {provider: house, temperature: 1}}", "{name: t}", "agents[0].model.model"),
        ("- {id: a}", "{name: t, default_model: {provider: openai}}", "system.default_model.model"),
    ],
)
def test_only_the_scripted_model_needs_no_name(agents: str, about: str, field: str) -> None:
    ((where, message),) = problems(agents, about).items()
    assert where == field
    assert message.startswith("this is missing; name the model of '")
    assert problems("- {id: a, model: {provider: scripted}}") == {}


def test_an_approval_that_names_no_decision_shows_that_all_are_open() -> None:
    lines = printed("- {id: a, tools: {allow: [mail, save]}, approvals: {mail: [], save: [approve]}}")
    assert "    ├── approvals: mail approve/edit/reject/respond, save approve" in lines
