"""What the rest of the server asks its node. A server on SQLite is alone, and has none."""

from typing import Protocol


class Member(Protocol):
    id: str

    @property
    def is_alive(self) -> bool:
        """Whether the other nodes regard this one as alive: it may claim runs."""

    @property
    def is_steady(self) -> bool:
        """Whether its own heartbeats came without a break for a whole lease: it may judge those of others.

        After a restart of the database every node sees all others lapsed.
        """

    @property
    def is_leader(self) -> bool:
        """Whether it does what one node does for all."""

    def announce_waiting(self) -> None:
        """A run waits, and this node has no slot for it."""

    def count_lost(self, runs: int) -> None: ...

    def count_taken_over(self, runs: int) -> None: ...

    def count_strays(self, runs: int) -> None: ...
