"""What clients of OpenAI's API send: the text and the files of a message."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Header

from stellwerk.api.schema.shared import TEXT_LIMIT
from stellwerk.api.services import Services
from stellwerk.envelope.model import RunEnd
from stellwerk.errors import Conflict, InvalidField, StorageGone
from stellwerk.protocols.requests import store_data_url
from stellwerk.protocols.run_streams import FollowedRun, end_of_run, run_of
from stellwerk.protocols.threads import OpenThread
from stellwerk.spec.model import ChatMessage
from stellwerk.tenants.principals import Principal

NO_RETRY = {"x-should-retry": "false"}
"""OpenAI's clients send again what was answered with 409 or 5xx; a message that is stored would be doubled."""
TOOLS = "X-Stellwerk-Tools"
ToolsHeader = Annotated[str | None, Header(alias=TOOLS)]
_TEXTS = ("text", "input_text", "output_text")


class SessionGone(Conflict):
    """The session was deleted before its run ended."""

    def headers(self) -> Mapping[str, str]:
        return NO_RETRY


class GoesOn(StorageGone, code="storage_gone"):
    """The server goes down; the run resumes with it."""

    def headers(self) -> Mapping[str, str]:
        return {**super().headers(), **NO_RETRY}


class SentPart(msgspec.Struct):
    """A part of a message, in the form of chat completions or of responses."""

    type: str
    text: str = ""
    image_url: str | dict[str, Any] | None = None
    file: dict[str, Any] | None = None
    file_data: str | None = None
    filename: str | None = None

    @property
    def url(self) -> tuple[str, str | None] | None:
        """The data URL of a file, and its name."""
        if self.image_url is not None:
            url = self.image_url if isinstance(self.image_url, str) else self.image_url.get("url")
            return str(url), None
        if self.file is not None:
            name = self.file.get("filename")
            return str(self.file.get("file_data")), name if isinstance(name, str) else None
        return None if self.file_data is None else (self.file_data, self.filename)


class SentMessage(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"] = "user"
    content: str | list[SentPart] | None = None
    type: str = "message"
    """Other items, such as the calls of tools, are not messages."""

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type in _TEXTS)
        return self.content or ""

    @property
    def urls(self) -> list[tuple[str, str | None]]:
        parts = self.content if isinstance(self.content, list) else []
        return [part.url for part in parts if part.url is not None]


def check_tools(tools: list[Any] | None, header: str | None) -> None:
    """Raises ``InvalidField`` if the client has tools, unless it says that they may be ignored."""
    if tools and header != "ignore":
        said = f"agents call their own tools, on the server; leave tools out, or send the header {TOOLS}: ignore"
        raise InvalidField(f"tools: {said}", field="tools")


def check_messages(messages: list[SentMessage], *, field: str) -> None:
    """Raises ``InvalidField`` if the last message cannot be answered."""
    if not messages or messages[-1].role != "user":
        raise InvalidField(f"{field}: the last message must be the user's", field=field)
    if len(messages[-1].text) > TEXT_LIMIT:
        said = f"a text has at most {TEXT_LIMIT} characters; send a file in place of a longer one"
        raise InvalidField(f"{field}: {said}", field=field)
    if not messages[-1].text.strip() and not messages[-1].urls:
        raise InvalidField(f"{field}: the last message must not be empty", field=field)


async def send_last(
    services: Services, who: Principal, thread: OpenThread, messages: list[SentMessage], *, key: str | None
) -> FollowedRun:
    """Send the last message; those before it are kept only if the session has just begun.

    Raises:
        Conflict: several questions are open.
        LimitReached: too many streams are open. This is known before the message is stored, as clients send it again.
    """
    sid, last = thread.session.id, messages[-1]
    with services.quotas.stream(who.tenant, sid):
        pass  # there is a place for one
    documents = [await store_data_url(services, who, *each) for each in last.urls]
    if thread.is_new and len(messages) > 1:
        conversation = [*_earlier(messages[:-1]), ChatMessage(role="user", content=last.text)]
        accepted = await services.sessions.send_conversation(
            who.tenant, sid, conversation, documents=documents, key=key
        )
    else:
        accepted = await services.sessions.send(who.tenant, sid, last.text, documents=documents, key=key)
    if accepted.status == "noted":
        said = "the session waits for answers to several questions; answer them in the console"
        raise Conflict(said, code="which_question")
    return FollowedRun(who, sid, run_of(accepted), accepted.after)


async def end_of_sent(services: Services, run: FollowedRun) -> RunEnd:
    """The end of the run of a message that was sent.

    Raises:
        GoesOn: the server goes down before.
        SessionGone: the session is deleted before.
    """
    try:
        end = await end_of_run(services, run)
    except StorageGone as error:
        raise GoesOn(error.message) from error
    if end is None:
        raise SessionGone("the session was deleted before its run ended", code="session_gone")
    return end


def _earlier(messages: list[SentMessage]) -> list[ChatMessage]:
    """Messages of users and assistants; agents have instructions of their own."""
    said = [each for each in messages if each.role in ("user", "assistant") and each.text]
    return [ChatMessage(role="user" if each.role == "user" else "assistant", content=each.text) for each in said]
