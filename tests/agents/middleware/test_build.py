"""From settings to middleware: each has its layer, unused ones cost nothing, and all are documented."""

import re
from pathlib import Path
from typing import Any

import pytest

from stellwerk.agents.build.kinds import prompt_of
from stellwerk.agents.middleware.build import middleware_for, without_answer_settings
from stellwerk.agents.middleware.types import CompositeMiddleware, Middleware
from stellwerk.errors import SpecError
from stellwerk.spec.load import load_system
from stellwerk.spec.model import AgentConfig
from tests.agents.middleware.conversations import Conversation, model, say

PAGE = (Path(__file__).parents[3] / "docs/howto/agent-config.md").read_text("utf-8")
ALWAYS = [
    "StepLimit",
    "DanglingToolCalls",
    "Images",
    "ModelRetry",
    "ToolLimits",
    "TaintTracking",
    "CallLog",
    "ToolErrors",
]
EVERYTHING: dict[str, Any] = {
    "tool_call_limit": 1,
    "tool_timeout": 1,
    "validation_prompt": "Be strict.",
    "final_prompt": "Sum up.",
    "approvals": {"look": ["approve"]},
}


def built(**settings: Any) -> list[Middleware]:
    return middleware_for(AgentConfig(**settings), agent="boss", judge=model(say("x")))


def names(middleware: list[Middleware]) -> list[str]:
    """The layers in their order, those inside of chains, too."""
    found = [layer.layers if isinstance(layer, CompositeMiddleware) else (layer,) for layer in middleware]
    return [layer.name for group in found for layer in group]


def layers(**settings: Any) -> list[str]:
    return names(built(**settings))


@pytest.mark.parametrize(
    ("settings", "layer"),
    [
        ({"only_one_model_call": True}, "OneModelCall"),
        ({"tool_timeout": 1}, "ToolTimeouts"),
        ({"tool_timeouts": {"look": 1}}, "ToolTimeouts"),
        ({"validation_prompt": "Be strict."}, "Validation"),
        ({"final_prompt": "Sum up."}, "FinalPrompt"),
        ({"approvals": {"look": ["approve"]}}, "Approvals"),
        ({"approvals_after_reading": ["write"]}, "Approvals"),
    ],
)
def test_a_setting_that_is_used_has_its_layer(settings: dict[str, Any], layer: str) -> None:
    assert [name for name in layers(**settings) if name not in ALWAYS] == [layer]


def test_a_plain_agent_has_no_nodes_beyond_its_model_and_its_tools() -> None:
    """Each node would be one more checkpoint for every model call."""
    assert layers() == ALWAYS
    for config in (AgentConfig(), AgentConfig(approvals={"look": []}, tool_call_limit=1, final_prompt="Sum up.")):
        assert set(Conversation(config, model(say("x"))).graph.nodes) == {"__start__", "model", "tools"}


def test_layers_that_only_wrap_calls_are_one_middleware_and_nodes_stay_separate() -> None:
    assert [layer.name for layer in built()] == ["Stellwerk1"]
    assert [layer.name for layer in built(**EVERYTHING)] == ["Stellwerk1", "Validation", "Stellwerk3"]


def test_the_helper_of_a_deep_agent_has_its_limits_but_gives_no_answer_of_its_own() -> None:
    config = AgentConfig(**EVERYTHING)
    guards = names(middleware_for(without_answer_settings(config), agent="boss", judge=model(say("x"))))
    assert guards == [name for name in names(built(**EVERYTHING)) if name not in ("Validation", "FinalPrompt")]


def test_one_model_call_cannot_be_judged() -> None:
    with pytest.raises(SpecError, match="'boss' has both only_one_model_call and validation_prompt.*leave one"):
        built(only_one_model_call=True, validation_prompt="Be strict.")


def test_the_order_is_the_one_that_the_layers_need() -> None:
    order = layers(**EVERYTHING)
    for outer, inner in [
        ("StepLimit", "ModelRetry"),  # a step is one turn, however often it is tried
        ("ModelRetry", "CallLog"),  # every attempt has its line
        ("StepLimit", "ToolLimits"),  # calls are counted in the budget that the steps are counted in
        ("ToolLimits", "Approvals"),  # no question about a call that is refused anyway
        ("Approvals", "TaintTracking"),  # what the user says in a tool's place is no stranger's
        ("Approvals", "CallLog"),  # no line before the tool runs
        ("Approvals", "ToolErrors"),
        ("CallLog", "ToolErrors"),  # the line tells what the model sees
        ("ToolErrors", "ToolTimeouts"),
    ]:
        assert order.index(outer) < order.index(inner), f"{outer} stands around {inner}"


def test_every_setting_is_documented() -> None:
    rows = {name for line in PAGE.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    assert set(AgentConfig.model_fields) <= rows


def test_the_example_of_the_page_loads() -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    planner = load_system(example, source="agent-config.md").system.agents[0]
    assert planner.max_steps == 20
    assert prompt_of(planner.settings()).startswith("You plan journeys.\n\n# Mission")
