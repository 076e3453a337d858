"""What a server answers, as far as the client reads it, and what goes with a request."""

from collections.abc import Mapping
from typing import Any, TypedDict

import msgspec
from msgspec import Struct

from stellwerk.envelope.payloads import FilePart


class Session(Struct, frozen=True, kw_only=True):
    """A session and its status."""

    id: str
    agent_system_id: str
    title: str | None = None
    """The beginning of the first message, in one line."""
    created_at: float
    last_activity_at: float | None = None
    """None from an older server."""
    position: int
    """The last position of its log."""
    status: str
    round: int
    awaiting_user_input: bool = False
    user_id: str | None = None
    config: dict[str, Any] | None = None
    """For its messages, unless they have their own; not in lists."""
    context: dict[str, Any] | None = None


class Withdrawn(Struct, frozen=True, kw_only=True):
    """An enqueued message that a stop withdrew: it starts nothing, and may be sent again."""

    message_id: str
    text: str
    documents: tuple[FilePart, ...] = ()
    input: Any = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None


class MessageParameters(TypedDict, total=False):
    """Input, config and context of the runs of a message; when it starts, and who is informed of its end."""

    input: Any
    config: Mapping[str, Any]
    context: Mapping[str, Any]
    after_seconds: float
    start_at: float
    webhook: str
    message_id: str  # an id of the caller's own
    replaces: str  # a run, whose message this one replaces


class SessionDefaults(TypedDict, total=False):
    """Config and context of the messages of a session."""

    config: Mapping[str, Any] | None
    context: Mapping[str, Any] | None


class Accepted(Struct, frozen=True, kw_only=True):
    """A message or an answer that is stored in the log."""

    round: int
    run_id: str
    position: int
    after: int
    """The cursor that shows the run whole."""
    status: str
    """accepted, enqueued behind another round, or noted while other questions are open."""
    message_id: str | None = None
    ask_id: str | None = None
    queued_run_id: str | None = None
    """The run that an enqueued message will start; ``run_id`` is the one under way."""
    open_asks: tuple[str, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    """The enqueued messages that were withdrawn because this one interrupted a round."""


class Stopped(Struct, frozen=True, kw_only=True):
    """A session without a current run."""

    status: str
    round: int
    position: int
    run_id: str | None = None
    withdrawn: tuple[Withdrawn, ...] = ()


class GraphState(Struct, frozen=True, kw_only=True):
    """The state of a session's graph at a checkpoint; before the first one it is empty."""

    values: Any
    next: tuple[str, ...]
    """The nodes that would run next."""
    tasks: tuple[dict[str, Any], ...] = ()
    """Those nodes, with the interrupts that wait for an answer."""
    checkpoint_id: str | None = None
    parent_checkpoint_id: str | None = None
    created_at: float | None = None
    source: str | None = None
    step: int | None = None


class GraphCheckpoint(Struct, frozen=True, kw_only=True):
    checkpoint_id: str
    created_at: float
    source: str
    step: int
    next: tuple[str, ...]
    node: str | None = None
    """The nodes of its step."""
    run_id: str | None = None
    position: int | None = None
    parent_checkpoint_id: str | None = None


class ChangedGraphState(Struct, frozen=True, kw_only=True):
    """A change of the state that is stored."""

    checkpoint_id: str
    position: int
    next: tuple[str, ...] = ()


class History(Struct, frozen=True, kw_only=True):
    checkpoints: list[GraphCheckpoint]


class EventPage(Struct, frozen=True, kw_only=True):
    events: list[msgspec.Raw]
    next: int


class SessionPage(Struct, frozen=True, kw_only=True):
    sessions: list[Session]
    next: str | None = None
