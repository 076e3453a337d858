"""Public helpers for your own tests: a log in memory, a checker for the order of envelopes, the scripted model."""

from collections.abc import Iterable

from stellwerk import loaded_when_asked_for
from stellwerk.envelope.model import Envelope, decode, encode

_PUBLIC = {
    "OrderChecker": "stellwerk.testing.order",
    "ScriptRule": "stellwerk.spec.script",
    "ScriptStep": "stellwerk.spec.script",
    "ScriptedModel": "stellwerk.agents.scripted.model",
    "order_problems": "stellwerk.testing.order",
}

__all__ = ["MemoryLog", *sorted(_PUBLIC)]

__getattr__ = loaded_when_asked_for(__name__, _PUBLIC)


class MemoryLog:
    """Sessions in memory: keeps envelopes in their stored form and returns what a reader would get."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[bytes]] = {}

    async def record(self, session_id: str, envelopes: Iterable[Envelope]) -> None:
        """Append envelopes to a session, which is created if there is none."""
        self._sessions.setdefault(session_id, []).extend(map(encode, envelopes))

    async def envelopes(self, session_id: str) -> list[Envelope]:
        """Return all envelopes of a session, in order."""
        return [decode(body) for body in self._sessions.get(session_id, ())]
