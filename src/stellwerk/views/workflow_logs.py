"""Log entries of a workflow: what a session's envelopes mean to somebody who watches a progress bar.

The texts and percentages are a contract with front ends; they stand here and
nowhere else. A graph that tells of its own progress does so by ``log``
envelopes, which are entries as they are.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from stellwerk.envelope.model import AskUser, Envelope, Error, Log, RunEnd, RunStart, SubgraphResume, Warning
from stellwerk.envelope.payloads import Level, Problem

Standing = Literal["running", "completed", "stopped", "failed"]

_ENDS = {"completed": "Workflow completed successfully", "stopped": "Workflow stopped by user"}


class Line(NamedTuple):
    """An entry without its place."""

    message: str
    type: Level = "info"
    progress: int | None = None


def lines(envelope: Envelope, *, is_explained: bool, cut_off: bool) -> Iterator[Line]:
    """What an envelope adds to the log.

    ``is_explained`` says that an error of this run stands in the log already; ``cut_off``, that the run had lost its
    server.
    """
    match envelope:
        case RunStart(payload=started) if started.trigger != "stop":
            yield from _begun(started.round)
        case SubgraphResume() if cut_off:
            yield Line("Workflow goes on after a restart of the server")
        case Log(payload=said):
            yield Line(said.message, said.level, said.progress)
        case Warning(payload=problem):
            yield Line(problem.message, "warning")
        case Error(payload=problem):
            yield _went_wrong(problem)
        case AskUser(payload=asked):
            yield Line(f"Waiting for an answer: {asked.question}" if asked.question else "Waiting for an answer")
        case RunEnd(payload=ended) if ended.status in _ENDS:
            yield Line(_ENDS[ended.status], progress=100)
        case RunEnd(payload=ended) if ended.status == "failed":
            if not is_explained:
                yield Line(ended.reason or "the run has failed", "error", 100)
            yield Line("Workflow failure reported", "error", 100)


def _begun(round_: int) -> Iterator[Line]:
    if round_ == 1:
        yield Line("Workflow initialized", progress=0)
    else:
        yield Line("Running workflow", progress=0)
        yield Line(f"Resuming workflow, round {round_}", progress=0)
    yield Line("Workflow processing started", progress=0)


def _went_wrong(problem: Problem) -> Line:
    if problem.code == "call_failed" and problem.name:  # whoever made the call may go on without it
        return Line(f"A call of {problem.name} has failed", "warning")
    return Line(problem.message, "error", 100 if problem.fatal else None)
