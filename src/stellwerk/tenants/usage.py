"""Usage rows: what a tenant has used, by day, user, agent system and model. They outlive their sessions."""

import msgspec


class UsageRow(msgspec.Struct, frozen=True):
    """Of one day (UTC). ``model`` is null where no model is meant: runs, seconds, tool calls."""

    day: str
    user: str | None
    system: str
    model: str | None
    model_calls: int
    input_tokens: int
    output_tokens: int
    tool_calls: int
    runs: int
    seconds: float
