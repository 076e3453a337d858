"""Loading: how texts become agent systems and operator files, and how every mistake is reported."""

import json
from pathlib import Path

import pytest

from stellwerk.demo import demo_yaml
from stellwerk.errors import SpecError
from stellwerk.spec.load import load_operator, load_system
from stellwerk.spec.model import AgentSystem, ModelSpec

SMALL = """
version: 1
system: {name: small}
agents: [{id: only}]
"""
SEED = (Path(__file__).parent / "seed_004.yaml").read_bytes()


def refusal(text: str | bytes) -> SpecError:
    with pytest.raises(SpecError) as refused:
        load_system(text, source="my.yaml")
    return refused.value


def with_agent(lines: str) -> str:
    indented = "\n".join(f"    {line}" for line in lines.splitlines())
    return f"version: 1\nsystem:\n  name: small\nagents:\n  - id: only\n{indented}\n"


def test_the_demo_system_loads() -> None:
    system = load_system(demo_yaml(), source="demo.yaml").system
    assert (system.system.name, system.orchestrator().id) == ("demo", "assistant")


@pytest.mark.requirement(
    "004.yaml.version",
    "004.yaml.system-name",
    "004.yaml.agent-id-and-role",
    "004.yaml.agent-prompts",
)
def test_the_founding_example_loads_as_it_was_written() -> None:
    system = load_system(SEED, source="seed_004.yaml").system
    orchestrator, git = system.agents
    assert (system.version, system.system.name) == (1, "idp-copilot")
    assert [(agent.id, agent.role, agent.max_steps) for agent in system.agents] == [
        ("orchestrator", "orchestrator", 50),
        ("agent_git", "sub-agent", 12),
    ]
    assert orchestrator.system_prompt.startswith("You are the orchestrator.")
    assert git.mission == "Handle repository creation and branch protection policies."
    assert git.description == "Git sub-agent"
    assert git.tools.allow == ["create_repository", "setup_branch_protection", "validate_project_name_and_type"]


@pytest.mark.requirement("004.yaml.version")
def test_another_version_is_refused() -> None:
    assert "version: found 2; expected 1" in str(refusal(SMALL.replace("version: 1", "version: 2")))


def test_json_is_read_like_yaml() -> None:
    as_json = json.dumps(load_system(SEED, source="seed").system.model_dump(mode="json"), indent="\t")
    assert load_system(as_json, source="json").system == load_system(SEED, source="seed").system
    emoji = json.dumps({"version": 1, "system": {"name": "x", "description": "a 😀/"}, "agents": [{"id": "a"}]})
    assert load_system(emoji, source="json").system.system.description == "a 😀/"


@pytest.mark.parametrize(
    "written, read",
    [
        ("no", "no"),
        ("on", "on"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        ('"5"', "5"),
        ("true", True),
        ("~", None),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("-1.5e3", -1500.0),
        ("9007199254740991", 9007199254740991),
    ],
)
def test_scalars_mean_what_yaml_1_2_says(written: str, read: object) -> None:
    step = f"model: {{script: [{{steps: [{{call: x, args: {{value: {written}}}}}]}}]}}"
    model = load_system(with_agent(step), source="my.yaml").system.agents[0].model
    assert model is not None
    found = model.script[0].steps[0].args["value"]
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"], ids=["unix", "windows", "old mac"])
def test_a_byte_order_mark_and_any_line_break_are_fine(line_break: str) -> None:
    text = "\ufeff" + with_agent("mission: |\n  Be\n  kind.").replace("\n", line_break)
    assert load_system(text.encode(), source="my.yaml").system.agents[0].mission == "Be\nkind.\n"


def test_all_problems_of_shape_are_reported_at_once_each_with_its_position() -> None:
    text = """version: 1
system:
  nme: small
  storage: {checklist_dir: ../up}
agents:
  - id: first
    role: orchestrater
    max_stepps: 5
    mission: send ${HOME}
    tools:
      allow: [search, "os:system"]
    approvals: {search: [approves]}
    model: {provider: openai, model: gpt, temperature: 3, base_url: "http://evil.example"}
  - role: sub-agent
    max_steps: yes
"""
    found = {(p.line, p.column, p.field): p.message for p in refusal(text).problems}
    assert {place: message.split(";")[0][:45] for place, message in found.items()} == {
        (2, 1, "system.name"): "this is missing",
        (3, 3, "system.nme"): "there is no key 'nme' here",
        (4, 13, "system.storage.checklist_dir"): "'../up' is not a folder below the data folder",
        (7, 5, "agents[0].role"): "found 'orchestrater'",
        (8, 5, "agents[0].max_stepps"): "there is no key 'max_stepps' here",
        (9, 14, "agents[0].mission"): "found '${HOME}'",
        (11, 23, "agents[0].tools.allow[1]"): "found 'os:system', which looks like code to i",
        (12, 26, "agents[0].approvals.search[0]"): "found 'approves'",
        (13, 43, "agents[0].model.temperature"): "found 3",
        (13, 59, "agents[0].model.base_url"): "an agent system cannot say 'base_url': only t",
        (14, 5, "agents[1].id"): "this is missing",
        (15, 5, "agents[1].max_steps"): "found 'yes'",
    }
    hints = [message.split("; ")[1] for message in found.values() if "did you mean" in message]
    assert hints == [f"did you mean {meant!r}?" for meant in ("name", "orchestrator", "max_steps", "approve")]


def test_the_message_of_the_error_has_a_line_for_each_problem() -> None:
    error = refusal("version: 1\nsystem: {nme: x}\nagents: [{id: a b}]\n")
    assert str(error).splitlines() == [
        "my.yaml:2:1: system.name: this is missing; add it",
        "my.yaml:2:10: system.nme: there is no key 'nme' here; did you mean 'name'?",
        "my.yaml:3:11: agents[0].id: found 'a b'; "
        "a name has letters, digits, _ and -, and begins with a letter or digit",
    ]
    assert (error.code, error.status, error.field) == ("invalid_system", 422, "system.name")


def test_a_value_that_fits_none_of_two_types_is_reported_once() -> None:
    (problem,) = refusal(with_agent("model: {script: [{when: [1], steps: [{say: x}]}]}")).problems
    assert (problem.field, problem.message) == ("agents[0].model.script[0].when", "found a list; expected a text")


def test_a_thousand_mistakes_give_fifty_problems() -> None:
    error = refusal(with_agent("\n".join(f"wrong{n}: 1" for n in range(1000))))
    assert len(error.problems) == 50


def test_a_comma_that_cuts_a_text_in_two_is_explained() -> None:
    error = refusal("version: 1\nsystem: {name: s}\nagents: [{id: a, mission: Be kind, and quick.}]\n")
    assert "there is no key 'and quick.' here; within {…} a comma ends a text" in str(error)


@pytest.mark.parametrize(
    "agent, message",
    [
        ("tools: [search, send]", "found a list; write tools: {allow: [search, send]}"),
        ("tools: search", "found 'search'; write tools: {allow: [search]}"),
        ("model: gpt-4.1", "found 'gpt-4.1'; write model: {provider: …, model: gpt-4.1}"),
        ("model: openai:gpt-4.1", "found 'openai:gpt-4.1'; write model: {provider: openai, model: gpt-4.1}"),
        ('max_steps: "20"', "found '20'; expected a whole number"),
        ('tool_timeout: "1.5"', "found '1.5'; expected a number"),
        ('only_one_model_call: "true"', "found 'true'; expected true or false"),
        ("max_steps: many", "found 'many'; expected a whole number"),
        ("model: {script: [{steps: []}]}", "this is empty; it needs at least one step"),
        (
            "model: {script: [{steps: [{call: x, args: {y: ['{message:a b}']}}]}]}",
            "'{message:a b}' is not a placeholder; write {message}, {message:word}, {document:ext}, {documents:ext}, "
            "{result}, {result:tool}, {result:tool:field} or {failure}, and a choice as |one|two, without spaces",
        ),
        (
            "model: {script: [{when: 2, steps: [{say: x}], failed: [{say: y}]}]}",
            "a rule with a number is played at that step only and cannot have failed; use a word",
        ),
    ],
)
def test_a_common_mistake_is_answered_with_the_correct_form(agent: str, message: str) -> None:
    (problem,) = refusal(with_agent(agent)).problems
    assert problem.message == message


def test_a_common_mistake_outside_of_the_agents_is_answered_too() -> None:
    error = refusal('version: "1"\nsystem: {name: s, default_model: gpt-4.1}\nagents: []\n')
    assert [f"{problem.field}: {problem.message}" for problem in error.problems] == [
        "version: found '1'; expected 1",
        "system.default_model: found 'gpt-4.1'; write default_model: {provider: …, model: gpt-4.1}",
        "agents: this is empty; it needs at least one agent",
    ]


def test_a_mistake_in_json_has_a_position_too() -> None:
    problem = refusal('{"version": 1, "system": {"name": "x"},\n "agents": [{"id": "a", "max_steps": "5"}]}').problems[
        0
    ]
    assert (problem.field, problem.line, problem.column) == ("agents[0].max_steps", 2, 25)


def test_control_characters_in_keys_are_not_printed() -> None:
    assert str(refusal(with_agent('"\\e[2J\\u202e": x'))).isprintable()


def test_settings_of_every_part_are_read() -> None:
    text = """
version: 1
system:
  name: everything
  default_model: {provider: openai, model: gpt, temperature: 0.1}
  coalescing_window: 0
  store_prompts: true
  quotas: {steps: 100, tokens: 50000, seconds: 60}
agents:
  - id: lead
    tools: {allow: [search, helper], agents: {helper: {allowed_tools: [search], mission_override: Be quick.}}}
    tool_call_limits: {search: 3}
    tool_timeouts: {search: 1.5}
    approvals: {search: [approve, reject]}
  - {id: helper, role: sub-agent, kind: deep, completion_signal: research_done, tools: {allow: [search]}}
"""
    system = load_system(text, source="my.yaml").system
    lead, helper = system.agents
    assert system.system.default_model == ModelSpec(provider="openai", model="gpt", temperature=0.1)
    assert (system.system.quotas.tokens, system.system.coalescing_window) == (50000, 0)
    assert lead.tools.agents["helper"].mission_override == "Be quick."
    assert (lead.tool_call_limits, lead.tool_timeouts) == ({"search": 3}, {"search": 1.5})
    assert (helper.kind, helper.completion_signal) == ("deep", "research_done")


@pytest.mark.parametrize("written", ["./checklists", "checklists", "checklists/"])
def test_the_folder_of_checklists_is_a_name_below_the_data_folder(written: str) -> None:
    text = SMALL.replace("name: small", f"name: small, storage: {{checklist_dir: {written}}}")
    assert load_system(text, source="my.yaml").system.system.storage.checklist_dir == "checklists"


def test_the_operators_file_has_commands_addresses_and_imports() -> None:
    operator = load_operator(
        """
mcp_servers:
  files: {command: [files-server, --root, data], env: {LOG: "1"}}
  search: {url: "https://search.example/mcp"}
providers:
  local: {kind: openai, base_url: "http://127.0.0.1:9000/v1", needs_key: false}
tools: ["my_tools:search"]
graphs: {report: "graphs/report.py:graph"}
""",
        source="operator.yaml",
    )
    assert operator.mcp_servers["files"].command == ["files-server", "--root", "data"]
    assert (operator.providers["local"].needs_key, operator.graphs) == (False, {"report": "graphs/report.py:graph"})
    assert load_operator("# nothing yet\n", source="operator.yaml").tools == []


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("mcp_server: {}", "did you mean 'mcp_servers'?"),
        ("mcp_servers: {a: {}}", "give either a command (stdio) or a url"),
        ("mcp_servers: {a: {url: 'file:///x'}}", "an address begins with http:// or https://"),
        ("tools: [search]", "write package.module:name"),
        ("retention: {delete_after: 90 days}", "write a time such as 90d, 12h or 30m, or never"),
        ("mcp_servers: {a: {command: [x], env: {KEY: '${KEY}'}}}", "nothing is expanded here"),
        ("graphs: &all {a: 'b.py:c'}", "the anchor '&all' is not read"),
    ],
)
def test_the_operators_file_is_checked_alike(text: str, complaint: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_operator(text, source="operator.yaml")
    assert complaint in str(refused.value)
    assert "operator.yaml:1:" in str(refused.value)


def test_an_unknown_kind_of_provider_is_reported_with_its_position() -> None:
    text = "providers:\n  house: {kind: house}\n  other: {kind: Opnai}\n  fine: {kind: google-genai}\n"
    with pytest.raises(SpecError) as refused:
        load_operator(text, source="operator.yaml", kinds=lambda: ("google_genai", "openai"))
    assert str(refused.value).splitlines() == [
        "operator.yaml:2:11: providers.house.kind: there is no kind of provider called 'house'; "
        "known are: google_genai, openai",
        "operator.yaml:3:11: providers.other.kind: there is no kind of provider called 'Opnai'; did you mean 'openai'?",
    ]


def test_a_system_round_trips_through_json() -> None:
    system = load_system(demo_yaml(), source="demo.yaml").system
    assert AgentSystem.model_validate_json(system.model_dump_json()) == system
