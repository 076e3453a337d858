"""State digests: one hash over a whole state that costs no more than what changed in it.

It is the SHA-256 over the names of all channels and the digests of their stored
forms. A channel that did not change keeps its version, and so its digest.
"""

import hashlib
from collections.abc import Callable, Mapping

from stellwerk.agents.checkpoint_items import Parts, encode

_REMEMBERED = 4096


class StateDigests:
    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], bytes] = {}

    def of(self, place: tuple[str, ...], versions: Mapping[str, object], parts: Callable[[str], Parts]) -> str:
        """``parts`` gives the stored form of a channel; it is asked only for versions not seen before."""
        whole = hashlib.sha256()
        for name in sorted(versions):
            whole.update(name.encode() + b"\0" + self._channel(place, name, versions[name], parts))
        return whole.hexdigest()

    def _channel(self, place: tuple[str, ...], name: str, version: object, parts: Callable[[str], Parts]) -> bytes:
        key = (*place, name, version)
        digest = self._known.pop(key, None) or hashlib.sha256(encode(parts(name))).digest()
        self._known[key] = digest
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return digest
