"""CustomStateShared: what an agent keeps beside its conversation."""

from typing import Any, NotRequired

from langchain.agents import AgentState


class CustomStateShared(AgentState[Any]):
    validated_agent_output: NotRequired[str]
    """The answer that its validation let out; empty while there is none for the current input."""
