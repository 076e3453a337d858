"""A tool that needs an approval."""

from stellwerk.agents.tools.spec import tool


@tool(effects="external")
def pay(to: str) -> str:
    """Send money."""
    return f"paid {to}"


tools = [pay]
