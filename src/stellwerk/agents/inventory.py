"""The inventory: every tool that an agent system may name here, described for people and programs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from stellwerk.agents.checklist import checklist_tools
from stellwerk.agents.pool import Pool
from stellwerk.agents.tool_spec import DescribedTool
from stellwerk.agents.tools import ARTIFACT_KEY, described
from stellwerk.errors import UnknownTool


async def inventory(pool: Pool) -> list[DescribedTool]:
    """Registered tools, those of the checklist, and those of the MCP servers that can be reached, by name."""
    offered = [*checklist_tools("agent"), *pool.free(await pool.mcp.all_tools())]
    tools = [*described(pool.tools.specs()), *map(_described, offered)]
    return sorted(tools, key=lambda tool: tool["name"])


def chosen(tools: Sequence[DescribedTool], names: Collection[str]) -> list[DescribedTool]:
    """Those of these names or aliases; all, if none is named.

    Raises:
        UnknownTool: there is none of that name.
    """
    known = {name: tool["name"] for tool in tools for name in (*tool["aliases"], tool["name"])}
    for name in names:
        if name not in known:
            raise UnknownTool(name, known=known)
    wanted = {known[name] for name in names}
    return [tool for tool in tools if not names or tool["name"] in wanted]


def listing(tools: Sequence[DescribedTool]) -> str:
    """The same for a terminal: a few lines for each tool."""
    return "\n\n".join("\n".join(_lines(tool)) for tool in tools)


def _described(tool: BaseTool) -> DescribedTool:
    ours = (tool.metadata or {}).get(ARTIFACT_KEY, {})
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": convert_to_openai_tool(tool)["function"]["parameters"],
        "output": ours.get("output"),
        "timeout": ours.get("timeout"),
        "idempotent": ours.get("idempotent", False),
        "effects": ours.get("effects", "read"),
        "untrusted": ours.get("untrusted", False),
        "runs_in": "loop",
        "aliases": [],
    }


def _lines(tool: DescribedTool) -> Iterator[str]:
    yield f"{tool['name']}  {tool['description'].splitlines()[0]}"
    schema = tool["input_schema"]
    for name, field in schema.get("properties", {}).items():
        mark = "required" if name in schema.get("required", []) else "optional"
        yield f"    {name}: {_type_of(field)}, {mark}  {field.get('description', '')}".rstrip()
    if tool["aliases"]:
        yield f"    also called {', '.join(tool['aliases'])}"
    limit = "" if tool["timeout"] is None else f"timeout {tool['timeout']:g} s, "
    doubt = "untrusted, " if tool["untrusted"] else ""
    yield f"    {limit}effects: {tool['effects']}, {doubt}runs in: {tool['runs_in']}"


def _type_of(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(repr(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(_type_of(each) for each in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "items" in schema:
        return f"array of {_type_of(schema['items'])}"
    return str(schema.get("type", "anything"))
