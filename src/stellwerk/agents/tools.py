"""The tools that agents may be allowed: plain typed functions that return a typed result."""

import msgspec
from langchain_core.tools import BaseTool, StructuredTool

from stellwerk.envelope.results import Column, Table, ToolResult
from stellwerk.errors import SpecError

ARTIFACT_KEY = "stellwerk"


def get_weather(city: str) -> ToolResult:
    """Tell the weather in a city."""
    columns = (Column(name="city"), Column(name="sky"), Column(name="degrees", type="number"))
    return Table(columns=columns, rows=((city, "sunny", 21),))


def registered(name: str) -> BaseTool:
    known = {"get_weather": get_weather}
    if name not in known:
        raise SpecError(f"the tool {name!r} is not registered; known are: {', '.join(sorted(known))}")
    function = known[name]

    def call(**arguments: object) -> tuple[str, dict[str, object]]:
        result = function(**arguments)  # type: ignore[arg-type]
        return result.as_text(), {ARTIFACT_KEY: 1, "result": msgspec.to_builtins(result)}

    described = StructuredTool.from_function(function)
    return StructuredTool(
        name=name,
        description=described.description,
        args_schema=described.args_schema,
        func=call,
        response_format="content_and_artifact",
    )
