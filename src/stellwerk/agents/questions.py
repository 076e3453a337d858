"""ask_user: the tool by which an agent asks its user, and waits."""

from typing import Annotated, Any

from langgraph.prebuilt import ToolRuntime
from langgraph.types import interrupt

from stellwerk.agents.tool_spec import tool


@tool(effects="read", idempotent=True)
async def ask_user(
    question: Annotated[str, "What you want to know, in a sentence."],
    runtime: ToolRuntime[Any, Any],
    options: Annotated[list[str] | None, "Answers to choose from, if there are only these."] = None,
    default: Annotated[str | None, "What to assume if nobody can answer."] = None,
) -> Any:
    """Ask the user, and get the answer. Ask only what you cannot find out yourself."""
    asked = {"question": question, "options": options, "default": default, "tool_call_id": runtime.tool_call_id}
    return interrupt({name: value for name, value in asked.items() if value is not None})
