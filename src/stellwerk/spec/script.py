"""The script of the scripted model, as it stands in the YAML: so that a system can be tried without a key."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

ToolName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ScriptCall(_Closed):
    """One tool call of a step."""

    call: ToolName
    args: dict[str, Any] = {}


class ScriptStep(_Closed):
    """One turn of the scripted model: say something, and perhaps ask for tools."""

    say: Annotated[str, Field(max_length=64 * 1024)] = ""
    """May quote {message} and {result}, the beginnings of the user's last text and of what the last tool returned."""
    call: ToolName | None = None
    args: dict[str, Any] = {}
    calls: list[ScriptCall] = []
    """Several tools at once."""
    wait: Annotated[float, Field(ge=0, le=600)] = 0.0
    """Seconds of silence before the first word."""
    fail: str | None = None
    """The model call fails with this text, after what it had to say."""


class ScriptRule(_Closed):
    """Steps that are played when a word of the user's text begins like this; without a word, always.

    A number in place of the word means that step of the round, counted from 1.
    """

    when: Annotated[str, Field(max_length=100)] | int | None = None
    steps: Annotated[list[ScriptStep], Field(min_length=1)]
