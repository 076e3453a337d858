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

    def of(
        self,
        place: tuple[str, ...],
        versions: Mapping[str, object],
        changed: Mapping[str, Parts],
        unchanged: Callable[[str], Parts],
    ) -> str:
        """``changed`` has the stored forms of what is new; ``unchanged`` is asked for others not seen before."""
        whole = hashlib.sha256()
        for name in sorted(versions):
            key = (*place, name, versions[name])
            if name in changed or key not in self._known:
                parts = changed[name] if name in changed else unchanged(name)
                self._remember(key, hashlib.sha256(encode(parts)).digest())
            whole.update(name.encode() + b"\0" + self._known[key])
        return whole.hexdigest()

    def _remember(self, key: tuple[object, ...], digest: bytes) -> None:
        self._known.pop(key, None)
        self._known[key] = digest
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
