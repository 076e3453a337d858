"""The JSON Schema of agent systems and the reference page agree with the models."""

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from stellwerk.spec import model, operator, script
from stellwerk.spec.load import json_schema, load_system
from stellwerk.spec.messages import PATTERNS
from stellwerk.spec.yaml import parse

REFERENCE = Path(__file__).parents[2] / "docs/reference"
HERE = Path(__file__).parent
SECTIONS: dict[type[BaseModel], str] = {
    model.AgentSystem: "The document",
    model.SystemSpec: "system",
    model.Storage: "system.storage",
    model.Quotas: "system.quotas",
    model.AgentSpec: "agents",
    model.ToolList: "tools",
    model.SubAgentUse: "terms",
    model.ModelSpec: "model",
    script.ScriptRule: "model.script",
    model.GraphConfig: "config",
    script.ScriptStep: "model.script.steps",
    script.ScriptCall: "model.script.steps",
}


def test_the_published_schema_is_the_one_of_the_models() -> None:
    published = json.loads((REFERENCE / "agent-system.schema.json").read_text("utf-8"))
    assert published == json_schema(), "`make golden` rewrites it"


def test_the_schema_is_valid_and_has_a_dialect_a_title_and_descriptions() -> None:
    described = json_schema()
    Draft202012Validator.check_schema(described)
    assert described["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert described["title"] == "Stellwerk agent system, version 1"
    assert described["$defs"]["AgentSpec"]["properties"]["max_steps"]["description"] == "Model calls for one input."


@pytest.mark.parametrize("name", ["seed_004.yaml", "two_agents.yaml"])
def test_what_loads_is_valid_by_the_schema(name: str) -> None:
    data = parse((HERE / name).read_text("utf-8"), source=name).data
    Draft202012Validator(json_schema()).validate(data)


def section(heading: str) -> str:
    page = (REFERENCE / "agent-system.md").read_text("utf-8")
    return page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("kind", SECTIONS, ids=lambda kind: kind.__name__)
def test_every_field_is_documented(kind: type[BaseModel]) -> None:
    text = section(SECTIONS[kind])
    missing = [name for name in kind.model_fields if f"| `{name}` |" not in text]
    assert not missing, f"docs/reference/agent-system.md lacks {missing} of {kind.__name__}"


def test_every_model_that_a_document_can_hold_has_a_section() -> None:
    assert {kind.__name__ for kind in SECTIONS} == {"AgentSystem", *json_schema()["$defs"]}


def test_the_example_of_the_page_loads() -> None:
    page = (REFERENCE / "agent-system.md").read_text("utf-8")
    example = page.split("```yaml\n", 1)[1].split("```", 1)[0]
    assert [agent.id for agent in load_system(example, source="agent-system.md").system.agents] == ["lead", "reader"]


def test_every_pattern_has_words_for_the_error() -> None:
    texts = json.dumps([json_schema(), operator.Operator.model_json_schema()])
    patterns = {json.loads(f'"{found}"') for found in re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', texts)}
    assert patterns <= set(PATTERNS)
