"""From settings to middleware: each has its layer, unused ones cost nothing, and all are documented."""

import re
from pathlib import Path
from typing import Any

import pytest

from stellwerk.agents.middleware.assembly import middleware_for
from stellwerk.agents.middleware.prompt import prompt_of
from stellwerk.spec.load import load_system
from stellwerk.spec.model import AgentConfig
from tests.agents.middleware.conversations import Conversation, model, say

PAGE = (Path(__file__).parents[3] / "docs/howto/agent-config.md").read_text("utf-8")
ALWAYS = ["StepLimit", "Repair", "ModelRetry", "CallLog", "ToolErrorMiddleware"]


def layers(**settings: Any) -> list[str]:
    return [layer.name for layer in middleware_for(AgentConfig(**settings), agent="boss", judge=model(say("x")))]


@pytest.mark.parametrize(
    ("settings", "layer"),
    [
        ({"only_one_model_call": True}, "OneModelCall"),
        ({"tool_call_limit": 1}, "ToolLimits"),
        ({"tool_call_limits": {"look": 1}}, "ToolLimits"),
        ({"tool_timeout": 1}, "ToolTimeout"),
        ({"tool_timeouts": {"look": 1}}, "ToolTimeout"),
        ({"validation_prompt": "Be strict."}, "Validation"),
        ({"final_prompt": "Sum up."}, "FinalPrompt"),
        ({"approvals": {"look": ["approve"]}}, "HumanInTheLoopMiddleware"),
    ],
)
def test_a_setting_that_is_used_has_its_layer(settings: dict[str, Any], layer: str) -> None:
    assert [name for name in layers(**settings) if name not in ALWAYS] == [layer]


def test_a_plain_agent_has_no_nodes_beyond_its_model_and_its_tools() -> None:
    """Each node would be one more checkpoint for every model call."""
    assert layers() == ALWAYS
    assert set(Conversation(AgentConfig(), model(say("x"))).graph.nodes) == {"__start__", "model", "tools"}


def test_the_order_is_the_one_that_the_layers_need() -> None:
    everything = {
        "only_one_model_call": True,
        "tool_call_limit": 1,
        "tool_timeout": 1,
        "validation_prompt": "Be strict.",
        "final_prompt": "Sum up.",
        "approvals": {"look": ["approve"]},
    }
    order = layers(**everything)
    for outer, inner in [
        ("StepLimit", "ModelRetry"),  # a step is one turn, however often it is tried
        ("ModelRetry", "CallLog"),  # every attempt has its line
        ("ToolLimits", "HumanInTheLoopMiddleware"),  # no question about a call that is refused anyway
        ("HumanInTheLoopMiddleware", "CallLog"),  # no line before the tool runs
        ("HumanInTheLoopMiddleware", "ToolErrorMiddleware"),
        ("CallLog", "ToolErrorMiddleware"),  # the line tells what the model sees
        ("ToolErrorMiddleware", "ToolTimeout"),
    ]:
        assert order.index(outer) < order.index(inner), f"{outer} stands around {inner}"


def test_every_setting_is_documented() -> None:
    rows = {name for line in PAGE.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    assert set(AgentConfig.model_fields) <= rows


def test_the_example_of_the_page_loads() -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    planner = load_system(example, source="agent-config.md").agents[0]
    assert planner.max_steps == 20
    assert prompt_of(planner.config()).startswith("You plan journeys.\n\n# Mission")
