"""The envelopes of one run up to its end, and what is left of it: for protocols that answer with a whole result."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

from stellwerk.api.services import Services
from stellwerk.envelope.model import AskUser, Document, Envelope, Message, RunEnd, UserAnswer, decode
from stellwerk.envelope.payloads import Asked, Filed, RunEnded
from stellwerk.errors import Conflict, StorageGone
from stellwerk.protocols.run_streams import FollowedRun
from stellwerk.runs.run_info import RunInfo

OUTCOME = ("run_start", "message", "document", "ask_user", "user_answer", "run_end")
"""The types of envelopes that ``RunOutcome`` is made of."""
_FIRST = 100
"""Envelopes of a run among which its message is: only its files come before."""
_WITHDRAWN = b'"action":"removed"'


@dataclass(slots=True)
class RunOutcome:
    """What a run has made so far."""

    end: RunEnded | None = None
    questions: dict[str, Asked] = field(default_factory=dict)
    """Those that are open when it has ended, by ``ask_id``."""
    _files: dict[str, Filed] = field(default_factory=dict)
    _given: set[str] = field(default_factory=set)
    """The ids of messages and answers of the user: their files are not the agent's."""

    def add(self, envelope: Envelope) -> None:
        match envelope:
            case AskUser(payload=asked):
                self.questions[asked.ask_id] = asked
            case UserAnswer(payload=answered):
                self._given.add(answered.ask_id)
            case Message(payload=said) if said.role == "user":
                self._given.add(said.message_id)
            case Document(payload=filed) if filed.action == "added":
                self._files[filed.document_id] = filed
            case RunEnd(payload=ended):
                self.end = ended
                if ended.status != "awaiting_user":
                    self.questions.clear()
            case _:
                pass

    @property
    def documents(self) -> list[Filed]:
        return [filed for filed in self._files.values() if filed.message_id not in self._given]


async def envelopes_of_run(
    services: Services, run: FollowedRun, types: tuple[str, ...]
) -> AsyncGenerator[Envelope | None, None]:
    """The envelopes of these types, from the start of a run to its end; None when nothing has happened for a while.

    Raises:
        Conflict: the session was deleted, or the message was withdrawn before its run started.
        StorageGone: the server goes down before the end; the run goes on after its start.
        Unauthorized: the key of the reader was revoked meanwhile.
    """
    prefixes = tuple(b'{"type":"%b"' % name.encode() for name in types)
    async for body in _bodies(services, run):
        if body is None:
            yield None
        elif body.startswith(prefixes):
            envelope = decode(body)
            if envelope.run_id == run.run_id:
                yield envelope
            if isinstance(envelope, RunEnd) and envelope.run_id == run.run_id:
                return
            if _WITHDRAWN in body and isinstance(envelope, Message):
                await services.sessions.run(run.who.tenant, run.session_id, run.run_id)
    if services.wakes.closed:
        raise StorageGone("the server is going down; the run goes on when it is back")
    raise Conflict("the session was deleted before its run ended", code="session_gone")


async def _bodies(services: Services, run: FollowedRun) -> AsyncIterator[bytes | None]:
    async with aclosing(services.log.follow(run.who.tenant, run.session_id, after=run.after)) as batches:
        async for batch in batches:
            services.credentials.check_valid(run.who)
            if not batch:
                yield None
            for stored in batch:
                yield stored.body


async def message_of(services: Services, tenant: str, run: RunInfo) -> str | None:
    """The text of the message that started a run; None for one that was enqueued before, or answers a question."""
    for envelope in await services.log.envelopes(tenant, run.session_id, after=run.after, before=run.position + _FIRST):
        if isinstance(envelope, Message) and envelope.payload.message_id == run.message_id:
            return envelope.payload.text
    return None
