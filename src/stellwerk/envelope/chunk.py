"""StreamChunk: one event of an outer or inner agent, for front ends.

The dialect ``chunks`` makes them from envelopes. A tool may write one to its
stream, too; its own claims about level, agent and order are ignored.
"""

from enum import StrEnum
from typing import Any, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from stellwerk.envelope.results import ToolResult
from stellwerk.envelope.to_json import to_result


class StreamLevel(StrEnum):
    OUTER = "outer_agent"
    INNER = "inner_agent"
    """Any depth below the outermost agent."""


class StreamEvent(StrEnum):
    START = "start"
    TOOL_REQUEST = "tool_request"
    TOOL_RESULT = "tool_result"
    FINAL = "final"
    OUTPUT = "output"
    """The answer as data, behind its text, if a graph ends with structured output."""
    ABORTED = "aborted"
    STEP = "step"
    """Text on the way to the answer."""
    DELTA = "delta"
    """A piece of text as the model writes it; not known yet to be a step or the answer."""
    QUESTION = "question"
    ERROR = "error"


_NEEDED = {
    StreamEvent.TOOL_REQUEST: "tool_name",
    StreamEvent.TOOL_RESULT: "data",
    StreamEvent.FINAL: "final_answer",
    StreamEvent.OUTPUT: "data",
    StreamEvent.ABORTED: "abortion_reason",
    StreamEvent.STEP: "data",
    StreamEvent.DELTA: "data",
    StreamEvent.QUESTION: "ask_id",
    StreamEvent.ERROR: "data",
}
_TEXTS = (StreamEvent.STEP, StreamEvent.DELTA, StreamEvent.QUESTION)


class StreamChunk(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    level: StreamLevel
    event: StreamEvent
    agent_name: str = Field(min_length=1)
    tool_name: str | None = None
    toolcall_id: str | None = None
    data: Any = None
    """A tool's result with ``kind``; text of a step or question; code and message of an error."""
    failed: bool = False
    """The tool reported an error."""
    final_answer: str | None = None
    aborted: bool = False
    abortion_reason: str | None = None
    message_id: str | None = None
    """Of the message that the text belongs to."""
    ask_id: str | None = None
    question: dict[str, Any] | None = None
    """What a question has beside its text: options, default, schema."""
    seq: int = 0
    """Counts the lines of a run; of a chunk with several lines it is that of the first."""
    ts: float = 0.0

    @field_validator("data")
    @classmethod
    def _fitting(cls, data: Any, known: ValidationInfo) -> Any:
        event = known.data.get("event")
        if event in _TEXTS and not isinstance(data, str):
            raise ValueError(f"the data of a {event} is its text")
        return _as_result(data) if event is StreamEvent.TOOL_RESULT and data is not None else data

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = _NEEDED.get(self.event)
        if needed is not None and getattr(self, needed) is None:
            raise ValueError(f"a chunk of the event {self.event} needs {needed}")
        return self


def _as_result(data: Any) -> Any:
    """Return an object with ``kind`` for any value."""
    if isinstance(data, ToolResult):
        return msgspec.to_builtins(data)
    result, _, blobs = to_result(data)
    if blobs:
        raise ValueError("a chunk cannot carry a file; return it from the tool instead")
    return msgspec.to_builtins(result)
