"""Parameters, request bodies and responses that several routes share, and their limits."""

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from fastapi import Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, FailFast, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from stellwerk.agents.graphs.parameters import refers_to_secrets
from stellwerk.agents.runtime.conversation import NO_PARAMETERS, RunParameters
from stellwerk.envelope.payloads import Answered
from stellwerk.envelope.to_json import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.errors import Forbidden, InvalidField
from stellwerk.runs.commands import IfBusy, JobOptions
from stellwerk.spec.model import GraphConfig
from stellwerk.tenants.principals import Principal

TEXT_LIMIT = 64 * 1024  # characters: at four bytes each they still fit into one event
PARAMETERS_LIMIT = 128 * 1024  # bytes
DEFAULTS_LIMIT = 32 * 1024  # bytes
_MOST_FIELDS = 64
SESSION_ID = "034yEnpqoVHlJvW0id6mKI"  # an example
SessionId = Annotated[str, Path(description="the id of a session", examples=[SESSION_ID])]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="the same request with the same key is executed once, however often it is sent",
    ),
]
Limit = Annotated[int, Query(ge=1, le=500, description="how many, at most")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=TEXT_LIMIT)]
Documents = Annotated[
    tuple[Annotated[str, Field(max_length=200)], ...],
    FailFast(),
    Field(max_length=50, description="ids of uploaded files that go with it"),
]


LATEST = 366 * 24 * 3600.0  # seconds from now in which a delayed run starts
AfterSeconds = Annotated[
    float | None,
    Field(ge=0, le=LATEST, allow_inf_nan=False, description="seconds from now; the run starts after them"),
]
StartAt = Annotated[
    float | None,
    Field(ge=0, allow_inf_nan=False, description="seconds since 1970 (UTC); the run starts then, or at once if passed"),
]
Webhook = Annotated[
    str | None,
    Field(min_length=1, max_length=2048, description="a URL that the end of the run is reported to, signed"),
]


class Json(Response):
    """Encoded by msgspec."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def address(request: Request, path: str) -> str:
    """The address of a path of this server, also if it is mounted in another app."""
    return f"{request.scope.get('root_path', '')}{path}"


def file_address(request: Request, document_id: str, filename: str) -> str:
    """The address of a file under this name: the same bytes may have several names."""
    return f"{address(request, f'/files/{document_id}')}?{urlencode({'name': filename})}"


def limit_fields(body: Any) -> Any:
    """Pydantic reports each unknown field: 100,000 of them would block the loop for a second."""
    if isinstance(body, dict) and len(body) > _MOST_FIELDS:
        too_many = f"there must not be more than {_MOST_FIELDS} fields"
        raise PydanticCustomError("too_many_fields", too_many)
    return body


class RequestBody(BaseModel):
    """A body with these fields and no others."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _limit_fields(cls, body: Any) -> Any:
        return limit_fields(body)


class RunConfig(RequestBody, GraphConfig):
    """The config of a run, as LangGraph has it; `${secret:name}` in a text is the secret of that name."""


class GivenDefaults(RequestBody):
    """Config and context of a session."""

    config: RunConfig | None = Field(None, description="for its messages, unless they have their own")
    context: dict[str, Any] | None = Field(None, description="the same for `context`, key by key")

    def parameters(self, who: Principal) -> RunParameters:
        """Raises like ``NewMessage.parameters``."""
        return run_parameters(who, None, self.config, self.context, limit=DEFAULTS_LIMIT)


class MessageContent(RequestBody):
    """What a message says, and when its run starts."""

    text: Annotated[str, Field(max_length=TEXT_LIMIT)] = Field(
        "", description="may be empty if files or input go with it", examples=["weather"]
    )
    documents: Documents = ()
    input: Any = Field(None, description="an object with keys of the graph's `input_schema`")
    config: RunConfig | None = None
    context: dict[str, Any] | None = Field(None, description="by the graph's `context_schema`")
    if_busy: IfBusy = Field(
        "reject", description="while another round is active: reject this, run it afterwards, or stop that round"
    )
    after_seconds: AfterSeconds = None
    start_at: StartAt = None
    webhook: Webhook = None

    def checked_text(self) -> str:
        """Raises ``InvalidField`` if there is neither text nor a file nor input."""
        text = self.text if self.text.strip() else ""
        if not text and not self.documents and self.input is None:
            raise InvalidField("text: this must not be empty, unless files or input go with it", field="text")
        return text

    def parameters(self, who: Principal) -> RunParameters:
        """Raises ``InvalidField`` if they cannot be stored as they are, ``Forbidden`` for secrets of others."""
        return run_parameters(who, self.input, self.config, self.context)

    def run_options(self, now: float) -> JobOptions:
        """Raises ``InvalidField`` if it has two times to start at."""
        start_at = self.start_at
        if self.after_seconds is not None:
            if start_at is not None:
                raise InvalidField("after_seconds: give this or start_at, not both", field="after_seconds")
            start_at = now + self.after_seconds
        if start_at is not None and start_at > now + LATEST:
            raise InvalidField("start_at: a run starts within a year, and this is later", field="start_at")
        return JobOptions(start_at=start_at, webhook=self.webhook)


class NewMessage(MessageContent):
    message_id: Annotated[str | None, Field(min_length=1, max_length=200)] = Field(
        None, description="an id of your own; the same one with the same content is the same request", examples=["m-1"]
    )
    replaces: Annotated[str | None, Field(min_length=1, max_length=64)] = Field(
        None, description="a run: this takes the place of its message, and later rounds are replaced as well"
    )


def run_parameters(
    who: Principal,
    given_input: Any,
    config: RunConfig | None,
    context: dict[str, Any] | None,
    *,
    limit: int = PARAMETERS_LIMIT,
) -> RunParameters:
    if given_input is None and config is None and context is None:
        return NO_PARAMETERS
    given = RunParameters(
        input=storable("input", given_input),
        config=storable("config", None if config is None else config.model_dump(exclude_none=True)),
        context=storable("context", context),
    )
    if len(msgspec.json.encode(given)) > limit:
        field = "context" if given_input is None else "input"
        said = f"input, config and context have more than {limit // 1024} KiB"
        raise InvalidField(f"{field}: {said}; send a file, and its id", field=field)
    if refers_to_secrets(given) and not who.may("register"):
        said = "a reference to a secret needs the scope 'register', which your key does not have"
        raise Forbidden(f"{said}; ask an admin of your tenant")
    return given


def storable(field: str, value: Any) -> Any:
    """The value; raises ``InvalidField`` if it cannot be stored as it is."""
    safe = canonical(value, depth=PAYLOAD_DEPTH)
    if safe.notes:
        raise InvalidField(f"{field}: this cannot be stored as it is: {safe.notes[0]}", field=field)
    return safe.value


class NewAnswer(RequestBody):
    ask_id: str = Field("", max_length=200, description="which question, if several are open")
    text: Text | None = Field(None, examples=["blue"])
    data: Any = Field(None, description="instead of text, for a question with a schema")
    refused: bool = Field(False, description="there will be no answer")
    documents: Documents = ()

    def to_payload(self) -> Answered:
        text = None if self.text is None else clean_text(self.text)
        data = canonical(self.data, depth=PAYLOAD_DEPTH).value
        return Answered(ask_id=self.ask_id, text=text, data=data, refused=self.refused)


class RegenerateOptions(RequestBody):
    run_id: Annotated[str | None, Field(min_length=1, max_length=64)] = Field(
        None, description="a run of the round to answer once more; without it, of the last round"
    )
    if_busy: Literal["reject", "interrupt"] = Field(
        "reject", description="while another round is active: reject this, or stop that round"
    )


class StopOptions(RequestBody):
    reason: str | None = Field(None, max_length=500, examples=["I have seen enough"])

    def clean_reason(self) -> str | None:
        return clean_text(self.reason) if self.reason else None
