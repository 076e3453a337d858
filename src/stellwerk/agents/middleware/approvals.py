"""Approvals: before a tool runs the user decides, about each call by itself."""

from collections.abc import Mapping, Sequence

from langchain.agents.middleware import HumanInTheLoopMiddleware, InterruptOnConfig

from stellwerk.agents.middleware.kinds import Middleware
from stellwerk.spec.model import DECISIONS, Decision


def approvals(rules: Mapping[str, Sequence[Decision]]) -> Middleware:
    """One interrupt per call of these tools; a tool for which no decision is named is open to all of them."""
    asked: dict[str, bool | InterruptOnConfig] = {
        tool: InterruptOnConfig(allowed_decisions=list(decisions or DECISIONS)) for tool, decisions in rules.items()
    }
    return HumanInTheLoopMiddleware(asked, interrupt_mode="per_call")
