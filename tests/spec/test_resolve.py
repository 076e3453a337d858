"""Resolution: agents become complete, and everything that does not fit the server is reported."""

from textwrap import dedent

import pytest

from stellwerk.errors import SpecError
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.load import load_system
from stellwerk.spec.model import CompleteAgent, ModelSpec, ToolSchema
from stellwerk.spec.resolve import Resolved, admit, resolve

CATALOGUE = Catalogue(
    tools={"search_web": "search_web", "find": "search_web", "send_mail": "send_mail"},
    graphs=("report",),
    providers=("scripted", "openai", "anthropic"),
    keys=("scripted", "anthropic"),
)
TEAM = """
    - id: lead
      tools: {allow: [helper, find]}
    - id: helper
      role: sub-agent
      description: Looks things up.
      mission: Find it.
      max_steps: 7
      tools: {allow: [search_web, send_mail]}
      model: {provider: anthropic, model: claude}
"""


def system(agents: str, about: str = "{name: team}") -> str:
    return f"version: 1\nsystem: {about}\nagents:\n{dedent(agents)}\n"


def resolved(agents: str, about: str = "{name: team}", catalogue: Catalogue = CATALOGUE) -> Resolved:
    return resolve(load_system(system(agents, about), source="team.yaml").system, catalogue)


@pytest.mark.requirement("000.config.complete-agent-lists-tool-schemas", "004.yaml.tools-allow")
def test_the_tools_that_an_agent_allows_are_its_tool_schemas() -> None:
    team = resolved(TEAM)
    assert (team.name, team.root.name, team.problems, team.unregistered, team.warnings) == ("team", "lead", (), (), ())
    assert team.root.tool_schemas == [ToolSchema(name="search_web")]
    assert [tool.name for tool in team.agents["helper"].tool_schemas] == ["search_web", "send_mail"]


@pytest.mark.requirement(
    "000.config.complete-agent-holds-agent-config",
    "000.config.complete-agent-lists-agents-as-tools",
    "000.config.complete-agent-has-description",
    "004.yaml.sub-agent-in-allow",
)
def test_an_agent_that_another_allows_is_its_tool_complete_with_description_and_config() -> None:
    team = resolved(TEAM)
    (use,) = team.root.agents_as_tools
    assert use.agent is team.agents["helper"]
    assert (use.agent.description, use.agent.config.mission, use.agent.config.max_steps) == (
        "Looks things up.",
        "Find it.",
        7,
    )


@pytest.mark.requirement("000.config.complete-agent-is-pure-data")
def test_a_complete_agent_is_pure_data() -> None:
    lead = resolved(TEAM).root
    assert CompleteAgent.model_validate_json(lead.model_dump_json()) == lead


@pytest.mark.requirement("004.yaml.default-model", "004.yaml.agent-model")
def test_an_agent_without_a_model_of_its_own_takes_the_default() -> None:
    about = "{name: team, default_model: {provider: anthropic, model: big, temperature: 0.1}}"
    team = resolved(TEAM, about)
    assert team.root.model == ModelSpec(provider="anthropic", model="big", temperature=0.1)
    assert team.agents["helper"].model == ModelSpec(provider="anthropic", model="claude")


def test_aliases_become_names_also_in_settings_and_terms() -> None:
    team = resolved("""
        - id: lead
          tools: {allow: [find, helper], agents: {helper: {allowed_tools: [find], mission_override: Be quick.}}}
          tool_call_limits: {find: 3}
          tool_timeouts: {search_web: 9}
          approvals: {find: [approve]}
        - {id: helper, role: sub-agent, tools: {allow: [search_web, send_mail]}}
    """)
    config = team.root.config
    assert (team.problems, config.tool_call_limits, config.tool_timeouts) == ((), {"search_web": 3}, {"search_web": 9})
    assert config.approvals == {"search_web": ["approve"]}
    (use,) = team.root.agents_as_tools
    assert (use.allowed_tools, use.mission_override) == (["search_web"], "Be quick.")


PROBLEMS = {
    "duplicate ids": ("- {id: a}\n- {id: a, role: sub-agent}", "agents[1].id", "agents[0] is called 'a' as well"),
    "an agent called like a tool": ("- {id: find}", "agents[0].id", "a tool is called 'find' as well"),
    "two orchestrators": (
        "- {id: a}\n- {id: b, role: orchestrator}",
        "agents[1].role",
        "'b' is an orchestrator beside 'a'; there is one, so give the others role: sub-agent",
    ),
    "two agents without a role": ("- {id: a}\n- {id: b}", "agents[1]", "because it names no role"),
    "no orchestrator": ("- {id: a, role: sub-agent}", "agents", "give one agent the role orchestrator"),
    "an agent that uses itself": ("- {id: a, tools: {allow: [a]}}", "agents[0].tools.allow[0]", "circle: a → a;"),
    "a circle": (
        """
        - {id: a, tools: {allow: [b]}}
        - {id: b, role: sub-agent, tools: {allow: [find, c]}}
        - {id: c, role: sub-agent, tools: {allow: [b]}}
        """,
        "agents[2].tools.allow[0]",
        "these agents call each other in a circle: b → c → b; remove one of the steps",
    ),
    "terms for an unknown agent": (
        "- {id: a, tools: {agents: {helpers: {}}}}\n- {id: helper, role: sub-agent}",
        "agents[0].tools.agents.helpers",
        "there is no agent 'helpers'; did you mean 'helper'?",
    ),
    "terms for an agent that is not allowed": (
        "- {id: a, tools: {agents: {helper: {}}}}\n- {id: helper, role: sub-agent}",
        "agents[0].tools.agents.helper",
        "'a' is not allowed to use 'helper'; add it to tools.allow",
    ),
    "terms that widen": (
        """
        - {id: a, tools: {allow: [helper], agents: {helper: {allowed_tools: [find, send_mail]}}}}
        - {id: helper, role: sub-agent, tools: {allow: [search_web]}}
        """,
        "agents[0].tools.agents.helper.allowed_tools[1]",
        "'helper' has no tool 'send_mail', and this list can only take away; known are: search_web",
    ),
    "a limit for another's tool": (
        "- {id: a, tools: {allow: [find]}, tool_call_limits: {fnd: 2}}",
        "agents[0].tool_call_limits.fnd",
        "'a' is not allowed the tool 'fnd'; did you mean 'find'?",
    ),
    "a timeout for another's tool": (
        "- {id: a, tool_timeouts: {send_mail: 2}}",
        "agents[0].tool_timeouts.send_mail",
        "add it to tools.allow, or remove this",
    ),
    "an approval for another's tool": (
        "- {id: a, approvals: {send_mail: [approve]}}",
        "agents[0].approvals.send_mail",
        "'a' is not allowed the tool 'send_mail'",
    ),
    "a graph without a name": ("- {id: a, kind: graph}", "agents[0]", "add graph: <name>"),
    "a graph of another kind": ("- {id: a, graph: report}", "agents[0].graph", "write kind: graph"),
    "an unknown graph": (
        "- {id: a, kind: graph, graph: reports}",
        "agents[0].graph",
        "the operator has registered no graph 'reports' (--config); did you mean 'report'?",
    ),
    "an unknown provider": (
        "- {id: a, model: {provider: opnai, model: x}}",
        "agents[0].model.provider",
        "there is no provider 'opnai'; did you mean 'openai'?",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_violated_rule_is_a_problem_with_a_remedy(name: str) -> None:
    agents, field, message = PROBLEMS[name]
    problems = {problem.field: problem.message for problem in resolved(agents).problems}
    assert list(problems) == [field]
    assert message in problems[field]


def test_an_unknown_tool_is_reported_apart_because_another_server_may_have_it() -> None:
    team = resolved("- {id: a, tools: {allow: [serch_web, paint]}}")
    assert (team.problems, team.warnings, team.root.tool_schemas) == ((), (), [])
    assert [(missing.field, missing.message) for missing in team.unregistered] == [
        ("agents[0].tools.allow[0]", "the tool 'serch_web' is not registered; did you mean 'search_web'?"),
        ("agents[0].tools.allow[1]", "the tool 'paint' is not registered; `stellwerk tools` lists what there is"),
    ]


def test_a_thousand_unknown_tools_give_fifty_problems() -> None:
    team = resolved(f"- {{id: a, tools: {{allow: [{', '.join(f'tool{n}' for n in range(1000))}]}}}}")
    assert len(team.unregistered) == 50


WARNINGS = {
    "a key that is missing": (
        "- {id: a, model: {provider: openai, model: gpt}}",
        "agents[0].model.provider",
        "there is no key for 'openai'; store the secret openai_api_key, or start the server with OPENAI_API_KEY set",
    ),
    "an agent out of reach": ("- {id: a}\n- {id: b, role: sub-agent}", "agents[1]", "no agent reaches 'b'"),
    "a limit for a tool that deep agents may bring": (
        "- {id: a, kind: deep, tool_call_limits: {write_file: 2}}",
        "agents[0].tool_call_limits.write_file",
        "this counts only if deep agents bring a tool of that name",
    ),
    "a tool of an MCP server that was not asked": (
        "- {id: a, tools: {allow: [files_read]}}",
        "agents[0].tools.allow[0]",
        "whether the MCP server 'files' offers 'files_read' was not checked",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_what_may_be_intended_is_a_warning(name: str) -> None:
    agents, field, message = WARNINGS[name]
    catalogue = Catalogue(CATALOGUE.tools, ("files",), CATALOGUE.graphs, CATALOGUE.providers, CATALOGUE.keys)
    team = resolved(agents, catalogue=catalogue)
    assert (team.problems, team.unregistered) == ((), ())
    assert [warning.field for warning in team.warnings] == [field]
    assert message in team.warnings[0].message


def test_a_wrong_default_model_is_reported_at_its_own_field() -> None:
    team = resolved("- {id: a}\n- {id: b, role: sub-agent}", "{name: team, default_model: {provider: unknown}}")
    assert [problem.field for problem in team.problems] == ["system.default_model.provider"]


def chain(length: int) -> str:
    roles = ["orchestrator"] + ["sub-agent"] * length
    allow = [f"[a{n + 1}]" for n in range(length)] + ["[]"]
    return "\n".join(f"- {{id: a{n}, role: {roles[n]}, tools: {{allow: {allow[n]}}}}}" for n in range(length + 1))


def test_sub_agents_are_nested_ten_deep_and_no_deeper() -> None:
    assert resolved(chain(10)).problems == ()
    (problem,) = resolved(chain(11)).problems
    assert problem.message.startswith("sub-agents are nested 11 deep, 10 are allowed: a0 → a1 → ")


def test_a_graph_of_the_operators_is_an_agent_by_its_name() -> None:
    team = resolved("- {id: a, kind: graph, graph: report}")
    assert (team.problems, team.root.kind, team.root.graph) == ((), "graph", "report")


def test_a_shared_sub_agent_is_made_once() -> None:
    team = resolved("""
        - {id: a, tools: {allow: [b, c]}}
        - {id: b, role: sub-agent, tools: {allow: [d]}}
        - {id: c, role: sub-agent, tools: {allow: [d]}}
        - {id: d, role: sub-agent}
    """)
    b, c = (use.agent for use in team.root.agents_as_tools)
    assert b.agents_as_tools[0].agent is c.agents_as_tools[0].agent


def test_registering_refuses_unknown_tools_with_their_positions() -> None:
    loaded = load_system(system("- id: a\n  tools:\n    allow: [search_web, serch_web]"), source="team.yaml")
    with pytest.raises(SpecError) as refused:
        admit(loaded, CATALOGUE)
    assert str(refused.value) == (
        "team.yaml:6:25: agents[0].tools.allow[1]: the tool 'serch_web' is not registered; did you mean 'search_web'?"
    )


def test_registering_keeps_warnings() -> None:
    loaded = load_system(system("- {id: a, model: {provider: openai, model: gpt}}"), source="team.yaml")
    assert len(admit(loaded, CATALOGUE).warnings) == 1
