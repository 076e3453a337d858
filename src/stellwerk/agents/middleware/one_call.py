"""OneModelCall: the model is asked once; the tools that it asks for run, and that is the end."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import ToolMessage
from langgraph.runtime import Runtime


class OneModelCall(AgentMiddleware[Any, Any, Any]):
    """Ends at the first tool result, without a message of its own: the result is the answer."""

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        return {"jump_to": "end"} if isinstance(state["messages"][-1], ToolMessage) else None
