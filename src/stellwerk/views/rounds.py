"""Rounds of a session: each is a message with the runs that answer it, and a later run may replace it.

A run that names another in ``replaces`` takes the place of that run's round, and of all rounds
after it: its answer was regenerated, or its message was edited.
"""

from typing import NamedTuple

import msgspec

from stellwerk.envelope.model import RunStart


class Round(msgspec.Struct, frozen=True, array_like=True):
    message_id: str | None
    runs: tuple[str, ...]
    """Of one trace: an answer to a question continues it in a run of its own."""


Rounds = tuple[Round, ...]
"""Those that count, in their order."""


class Replaced(NamedTuple):
    runs: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()
    """Messages of users that nothing answers any more. One that is answered again is not among them."""


def run_starts(rounds: Rounds, start: RunStart) -> tuple[Rounds, Replaced]:
    """Return the rounds with this run, and what it replaces."""
    run, started = start.run_id or start.call_id, start.payload
    gone: Rounds = ()
    if started.replaces is not None:
        # Of a run that is not known: it came before all that are.
        first = _place(rounds, started.replaces) or 0
        rounds, gone = rounds[:first], rounds[first:]
    place = None if start.trace_id is None else _place(rounds, start.trace_id)
    if place is None:
        rounds = (*rounds, Round(started.message_id, (run,)))
    else:
        continued = rounds[place]
        rounds = (*rounds[:place], Round(continued.message_id, (*continued.runs, run)), *rounds[place + 1 :])
    runs = {each for round_ in gone for each in round_.runs}
    if started.replaces is not None:
        runs.add(started.replaces)
    messages = {each.message_id for each in gone} - {started.message_id}
    return rounds, Replaced(frozenset(runs), frozenset(each for each in messages if each))


def round_of(rounds: Rounds, run_id: str) -> Round | None:
    place = _place(rounds, run_id)
    return None if place is None else rounds[place]


def _place(rounds: Rounds, run_id: str) -> int | None:
    """Where the round of a run is. The newest is looked at first."""
    places = reversed(range(len(rounds)))
    return next((place for place in places if run_id in rounds[place].runs), None)
