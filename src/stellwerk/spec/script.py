"""The script of the scripted model, as it stands in the YAML: so that a system can be tried without a key."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from stellwerk.spec.quotes import well_quoted

ToolName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]

Extension = Annotated[str, Field(pattern=r"^([a-z0-9]{1,10}|\*)$")]
Word = Annotated[str, Field(max_length=100)]

Said = Annotated[str, AfterValidator(well_quoted)]
Args = Annotated[dict[str, Any], AfterValidator(well_quoted)]


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ScriptCall(_Closed):
    """One tool call of a step."""

    call: ToolName
    args: Args = {}


class ScriptStep(_Closed):
    """One turn of the scripted model: say something, and perhaps ask for tools."""

    say: Annotated[Said, Field(max_length=64 * 1024)] = ""
    """May quote {message} and {result}, the beginnings of the user's last text and of what the last tool returned.

    {message:word} is what follows that word; {result:tool} what that tool returned last; {failure} what a tool said
    that failed; {document:xlsx,csv} the id of the first document of the task with one of these extensions, and
    {documents:xlsx,csv} the ids of all of them that the user gave, with a space between; and with |one|two behind it,
    the first of these that the text has.
    """
    call: ToolName | None = None
    args: Args = {}
    calls: list[ScriptCall] = []
    """Several tools at once."""
    wait: Annotated[float, Field(ge=0, le=600)] = 0.0
    """Seconds of silence before the first word."""
    fail: Said | None = None
    """The model call fails with this text, after what it had to say."""


class ScriptRule(_Closed):
    """Steps that are played when a word of the user's text begins like this, or like one of these; else always.

    A number in place of the word means that step of the round, counted from 1. Of a task only its prompt is looked at,
    not what is told of its documents.
    """

    when: Word | Annotated[list[Word], Field(min_length=1)] | int | None = None
    documents: list[Extension] = []
    """Played only if there is a document with one of these extensions; ``*`` stands for all of them."""
    steps: Annotated[list[ScriptStep], Field(min_length=1)]
    failed: list[ScriptStep] = []
    """What is played from there on, in place of the steps, when a tool has failed."""

    @model_validator(mode="after")
    def _failures_are_of_a_round(self) -> Self:
        if isinstance(self.when, int) and self.failed:
            raise ValueError("a rule with a number is played at that step only and cannot have failed; use a word")
        return self
