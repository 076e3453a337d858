"""The system prompt of an agent, with its mission."""

from stellwerk.spec.model import AgentConfig


def prompt_of(config: AgentConfig, mission_override: str | None = None) -> str:
    """The system prompt, and behind it the mission; empty if there is neither."""
    mission = mission_override if mission_override is not None else config.mission
    parts = [config.system_prompt, f"# Mission\n\n{mission}" if mission else ""]
    return "\n\n".join(part for part in parts if part)
