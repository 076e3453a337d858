"""A turn: what one run of an agent is asked to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stellwerk.spec.chat import ChatMessage


@dataclass(frozen=True, slots=True)
class Turn:
    """Take a message, or go on with the answers to the questions that were asked."""

    session_id: str
    epoch: int | None = None
    """Of the lease under which the run may write; None where nobody else can."""
    message_id: str = ""
    text: str = ""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """What the graph gets for each question, by ask_id."""
    earlier: Sequence[ChatMessage] = ()
    """What was said before, for a conversation that nobody has stored yet."""
