"""The tool inventory: descriptions of all tools that agent systems can use, as JSON and as text."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from stellwerk.agents.tools.registry import ARTIFACT_KEY, describe
from stellwerk.agents.tools.spec import DescribedTool, ToolSpec
from stellwerk.errors import UnknownTool


def inventory(registered: Iterable[ToolSpec], offered: Iterable[BaseTool]) -> list[DescribedTool]:
    """The descriptions of registered and other tools, sorted by name."""
    tools = [*describe(registered), *map(_describe_langchain_tool, offered)]
    return sorted(tools, key=lambda tool: tool["name"])


def select(tools: Sequence[DescribedTool], names: Collection[str]) -> list[DescribedTool]:
    """The tools with these names or aliases; all tools if ``names`` is empty.

    Raises:
        UnknownTool: no tool has that name.
    """
    known = {name: tool["name"] for tool in tools for name in (*tool["aliases"], tool["name"])}
    for name in names:
        if name not in known:
            raise UnknownTool(name, known=known)
    wanted = {known[name] for name in names}
    return [tool for tool in tools if not names or tool["name"] in wanted]


def as_text(tools: Sequence[DescribedTool]) -> str:
    """Text for a terminal: a few lines for each tool."""
    return "\n\n".join("\n".join(_tool_lines(tool)) for tool in tools)


def _describe_langchain_tool(tool: BaseTool) -> DescribedTool:
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


def _tool_lines(tool: DescribedTool) -> Iterator[str]:
    yield f"{tool['name']}  {tool['description'].splitlines()[0]}"
    schema = tool["input_schema"]
    for name, field in schema.get("properties", {}).items():
        mark = "required" if name in schema.get("required", []) else "optional"
        yield f"    {name}: {_type_text(field)}, {mark}  {field.get('description', '')}".rstrip()
    if tool["aliases"]:
        yield f"    also called {', '.join(tool['aliases'])}"
    limit = "" if tool["timeout"] is None else f"timeout {tool['timeout']:g} s, "
    doubt = "untrusted, " if tool["untrusted"] else ""
    yield f"    {limit}effects: {tool['effects']}, {doubt}runs in: {tool['runs_in']}"


def _type_text(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(repr(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(_type_text(each) for each in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "items" in schema:
        return f"array of {_type_text(schema['items'])}"
    return str(schema.get("type", "anything"))
