"""The copilot's description: what it shares with the founding example, and that only the model lines change."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stellwerk.spec.yaml import parse
from tests.examples.idp_system import FOLDER, SYSTEM, repositories, said, served, talk, used, variant, with_approvals
from tests.openai_server import OpenAiServer, Reply, openai_server
from tests.runs.talking import begin

__all__ = ["openai_server"]

SEED = Path(__file__).parents[1] / "spec/seed_004.yaml"
MODEL = re.compile(r"^    model:\n(?:      .*\n|\n(?=      ))+", re.MULTILINE)
"""An agent's model: everything below it that is indented further."""
ADDED = ["undo_deployment", "ask_user", "plan_tasks", "update_tasks", "report_obstacles"]


def described(text: str) -> Any:
    return parse(text, source="idp").data


def with_real_models() -> str:
    """The system with the model lines that its README gives, and without any other change."""
    lines = re.findall(r"```yaml\n(    model:\n.*?)```", (FOLDER / "README.md").read_text("utf-8"), re.DOTALL)
    written = iter(lines)
    text, count = MODEL.subn(lambda _: next(written), SYSTEM.read_text("utf-8"))
    assert (count, list(written)) == (2, [])
    return text


def test_but_for_its_script_and_five_tools_it_is_the_founding_example() -> None:
    ours, seed = described(with_real_models()), described(SEED.read_text("utf-8"))
    assert ours["agents"][0]["tools"]["allow"] == [*seed["agents"][0]["tools"]["allow"], *ADDED]
    ours["agents"][0]["tools"] = seed["agents"][0]["tools"]
    ours["system"]["default_model"] = seed["system"]["default_model"]
    assert ours == seed


def test_the_marks_before_the_approvals_hide_nothing_else() -> None:
    free, asking = described(SYSTEM.read_text("utf-8")), described(with_approvals())
    rules = [agent.pop("approvals") for agent in asking["agents"]]
    assert free == asking
    assert [sorted(rule) for rule in rules] == [
        ["create_git_repository_with_branch_protection", "deploy_to_staging"],
        ["create_repository"],
    ]


TASK = "Validate billing-service as a Python service."


@pytest.mark.requirement("004.models.per-agent", "004.models.native-tool-calling")
async def test_with_other_model_lines_a_provider_does_the_same(openai_server: OpenAiServer, tmp_path: Path) -> None:
    name = {"name": "billing-service"}
    openai_server.replies = [
        Reply(say="I let it be checked. ", calls=(("agent_git", {"task": TASK}),)),
        Reply(calls=(("validate_project_name_and_type", {**name, "project_type": "python"}),)),
        Reply(say="It is free."),
        Reply(calls=(("create_git_repository_with_branch_protection", name),)),
        Reply(calls=(("apply_template", {"repository": "billing-service", "template": "python-service"}),)),
        Reply(calls=(("deploy_to_staging", {"repository": "billing-service"}),)),
        Reply(say="It is on staging."),
    ]
    operator = f"providers: {{openai: {{kind: openai, base_url: '{openai_server.address}'}}}}\n"
    system = variant(tmp_path / "example", with_real_models(), operator=operator)
    async with served(tmp_path / "data", system, key=openai_server.key) as client:
        told = await talk(client, await begin(client, "idp-copilot"), "Create a service billing-service")
        assert said(told) == "It is on staging."
        assert used(told) == [
            *("validate_project_name_and_type", "agent_git", "create_git_repository_with_branch_protection"),
            *("apply_template", "deploy_to_staging"),
        ]
    asked = [received.body for received in openai_server.received]
    assert [body["model"] for body in asked] == ["gpt-4.1", *["gpt-4.1-mini"] * 2, *["gpt-4.1"] * 4]
    offered = {tool["function"]["name"] for tool in asked[0]["tools"]}
    assert {"create_git_repository_with_branch_protection", "agent_git", "ask_user", "plan_tasks"} <= offered
    assert len(offered) == 15
    assert TASK in json.dumps(asked[1]["messages"])
    assert repositories(tmp_path / "data") == ["billing-service.git"]
