"""A turn: what one run of an agent is asked to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langgraph.runtime import RunControl as Pause

from stellwerk.envelope.model import Message
from stellwerk.envelope.payloads import FilePart, TextPart
from stellwerk.spec.chat import ChatMessage

__all__ = ["Pause", "Turn", "UnheardMessage", "chat_message_of", "files_of", "text_of", "unheard_message_of"]


class UnheardMessage(NamedTuple):
    """A message of a run that was stopped or failed."""

    message_id: str
    said: ChatMessage
    files: Sequence[FilePart] = ()
    """What came with it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Take a message, go on with the answers to the questions that were asked, or go on where it was cut off."""

    session_id: str
    epoch: int | None = None
    """Of the lease under which the run may write; None where nobody else can."""
    user_id: str | None = None
    """Of the session's user, for graphs that keep something for each user."""
    message_id: str = ""
    """Of the user's message; also where the run goes on with what follows from it."""
    text: str = ""
    files: Sequence[FilePart] = ()
    """What came with the message."""
    warned: bool = False
    """The log says already which of them no model is shown."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """What the graph gets for each question, by ask_id."""
    earlier: Sequence[ChatMessage] = ()
    """What was said before, for a conversation that nobody has stored yet."""
    unheard: Sequence[UnheardMessage] = ()
    """What the conversation shows of runs that were stopped or failed; the state may lack some of it."""
    from_checkpoint: str | None = None
    """Begin with the state of this checkpoint instead of the last one."""
    goes_on: bool = False
    """The input is in the graph's state already: go on from its last checkpoint."""
    pause: Pause | None = None
    """Asked to pause, the graph ends its step, stores its state and raises ``Paused``."""


def chat_message_of(message: Message) -> ChatMessage:
    return ChatMessage.model_validate({"role": message.payload.role, "content": text_of(message)})


def unheard_message_of(message: Message) -> UnheardMessage:
    return UnheardMessage(message.payload.message_id, chat_message_of(message), files_of(message))


def text_of(message: Message) -> str:
    """What the agent reads: the words, and which files came with them."""
    parts = message.payload.content
    files = [part.as_text for part in files_of(message)]
    return "\n".join([*(part.text for part in parts if isinstance(part, TextPart)), *files])


def files_of(message: Message) -> list[FilePart]:
    return [part for part in message.payload.content if isinstance(part, FilePart)]
