"""What older versions of LangGraph lack: a worker may run with the version that its project has.

The server itself has all of it. A run that cannot be drained goes on until it is cut off, and
continues from its last checkpoint.
"""

import inspect
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphBubbleUp
from langgraph.pregel import Pregel

if TYPE_CHECKING:
    from langgraph.errors import GraphDrained
    from langgraph.pregel._tools import ToolCallWriter, _tool_call_writer
    from langgraph.runtime import RunControl
else:
    try:
        from langgraph.errors import GraphDrained
        from langgraph.runtime import RunControl
    except ImportError:  # before 1.2

        class GraphDrained(GraphBubbleUp):
            """Never raised here."""

        class RunControl:
            """Remembers that a pause was requested."""

            __slots__ = ("drain_requested",)

            def __init__(self) -> None:
                self.drain_requested = False

            def request_drain(self, reason: str = "shutdown") -> None:
                self.drain_requested = True

    try:  # private, but what `runtime.emit_output_delta` reads; a canary test pins it
        from langgraph.pregel._tools import ToolCallWriter, _tool_call_writer
    except ImportError:  # before 1.2
        ToolCallWriter = Any
        _tool_call_writer = ContextVar("stellwerk_tool_call_writer", default=None)

__all__ = ["CAN_DRAIN", "HAS_PARTS", "GraphDrained", "RunControl", "ToolCallWriter", "_tool_call_writer", "as_part"]

_takes = inspect.signature(Pregel.astream).parameters.keys()
CAN_DRAIN = "control" in _takes
HAS_PARTS = "version" in _takes
"""Whether ``astream`` can yield mappings; before 1.1 it yields tuples."""


def as_part(given: Any) -> Mapping[str, Any]:
    """What ``astream`` yields, as a mapping."""
    if isinstance(given, tuple):
        space, mode, data = given
        return {"ns": space, "type": mode, "data": data}
    part: Mapping[str, Any] = given
    return part
