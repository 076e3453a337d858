"""Request bodies and parameters that several routes share, and their limits."""

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, FailFast, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from stellwerk.envelope.payloads import Answered
from stellwerk.envelope.to_json import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.errors import InvalidField
from stellwerk.runs.commands import IfBusy

TEXT_LIMIT = 64 * 1024
"""Characters: at four bytes each they still fit into one event."""
_MOST_FIELDS = 64

SESSION_ID = "034yEnpqoVHlJvW0id6mKI"
"""An example."""
SessionId = Annotated[str, Path(description="the id of a session", examples=[SESSION_ID])]
Limit = Annotated[int, Query(ge=1, le=500, description="how many, at most")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=TEXT_LIMIT)]
Documents = Annotated[
    tuple[Annotated[str, Field(max_length=200)], ...],
    FailFast(),
    Field(max_length=50, description="ids of uploaded files that go with it"),
]


def limit_fields(body: Any) -> Any:
    """Pydantic reports each unknown field: 100,000 of them would block the event loop for a second."""
    if isinstance(body, dict) and len(body) > _MOST_FIELDS:
        raise PydanticCustomError("too_many_fields", f"there must not be more than {_MOST_FIELDS} fields")
    return body


class RequestBody(BaseModel):
    """A body with these fields and no others."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _limit_fields(cls, body: Any) -> Any:
        return limit_fields(body)


class NewMessage(RequestBody):
    text: Annotated[
        str, Field(max_length=TEXT_LIMIT, description="may be empty if files go with it", examples=["weather"])
    ] = ""
    documents: Documents = ()
    if_busy: Annotated[
        IfBusy,
        Field(description="while another round is active: reject this, run it afterwards, or stop that round"),
    ] = "reject"

    def checked_text(self) -> str:
        """
        Raises:
            InvalidField: there is neither text nor a file.
        """
        text = self.text if self.text.strip() else ""
        if not text and not self.documents:
            raise InvalidField("text: this must not be empty, unless files go with it", field="text")
        return text


class NewAnswer(RequestBody):
    ask_id: Annotated[str, Field(max_length=200, description="which question, if several are open")] = ""
    text: Annotated[Text | None, Field(examples=["blue"])] = None
    data: Annotated[Any, Field(description="instead of text, for a question with a schema")] = None
    refused: Annotated[bool, Field(description="there will be no answer")] = False
    documents: Documents = ()

    def to_payload(self) -> Answered:
        text = None if self.text is None else clean_text(self.text)
        data = canonical(self.data, depth=PAYLOAD_DEPTH).value
        return Answered(ask_id=self.ask_id, text=text, data=data, refused=self.refused)


class StopOptions(RequestBody):
    reason: Annotated[str | None, Field(max_length=500, examples=["I have seen enough"])] = None

    def clean_reason(self) -> str | None:
        return clean_text(self.reason) if self.reason else None
