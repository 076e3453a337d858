"""Where the stream of a reader ends: never, with the next end of a run, with one run, or with all there is."""

from dataclasses import dataclass

from stellwerk.api.streams.reader import WHOLE, end_of_run
from stellwerk.dialects.base import Cursor
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Message, RunEnd, RunStart, decode

_NOWHERE = (2**63, 0)
_ENDS = b'{"type":"run_end"'
_BEGINS = (b'{"type":"run_start"', b'{"type":"message"')


class StreamEnd:
    """An open stream, which ends with its session."""

    start: int | None = None
    """The position that a translator must reach, if the cursor of the reader does not decide that."""
    begin: Cursor = (0, -1)
    """Nothing up to here is shown."""
    is_under_way = False
    """A run has begun of which the end is to come."""

    @property
    def skip(self) -> Cursor:
        """Nothing up to here will be shown."""
        return (0, -1) if self.start is None else self.begin

    def found(self, batch: list[Stored]) -> int | None:
        """How much of the batch is in front of the end, if that is in it. Batches come in order."""
        return None


@dataclass
class UntilRunEnd(StreamEnd):
    known: int

    def found(self, batch: list[Stored]) -> int | None:
        return end_of_run(batch, after=self.known)


@dataclass
class AllUntil(StreamEnd):
    """Everything up to a position; if a run is under way there, up to its end."""

    position: int
    run_id: str | None

    def __post_init__(self) -> None:
        self.is_under_way = self.run_id is not None

    def found(self, batch: list[Stored]) -> int | None:
        for count, stored in enumerate(batch, 1):
            if self.run_id is None:
                if stored.position >= self.position:
                    return count
            elif stored.body.startswith(_ENDS) and decode(stored.body).run_id == self.run_id:
                return count
        return None


class OneRun(StreamEnd):
    """A run that has begun at a position, or that a message waits for."""

    def __init__(self, run_id: str, position: int | None, message_id: str | None) -> None:
        self._run_id = run_id
        self._message_id = message_id
        self._see(position)

    def _see(self, position: int | None) -> None:
        self.start = position
        self.is_under_way = position is not None
        self.begin = _NOWHERE if position is None else (position - 1, WHOLE)

    def found(self, batch: list[Stored]) -> int | None:
        for count, stored in enumerate(batch, 1):
            if self.start is None:
                if stored.body.startswith(_BEGINS) and self._is_withdrawn(stored):
                    return count
            elif stored.body.startswith(_ENDS) and self._is_end(stored):
                return count
        return None

    def _is_withdrawn(self, stored: Stored) -> bool:
        """Whether the message is; and note where the run begins."""
        match decode(stored.body):
            case RunStart(run_id=run_id) if run_id == self._run_id:
                self._see(stored.position)
            case Message(payload=said) if said.action == "removed":
                return said.message_id == self._message_id
        return False

    def _is_end(self, stored: Stored) -> bool:
        envelope = decode(stored.body)
        return isinstance(envelope, RunEnd) and envelope.run_id == self._run_id
