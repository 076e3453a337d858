from functools import reduce

import msgspec
import pytest

from stellwerk.envelope.model import Envelope, type_of
from stellwerk.envelope.payloads import RunStatus
from stellwerk.views.status import TURNING_POINTS, Status, fold
from tests.samples import run_end, run_start, whole_run


def folded(story: list[Envelope]) -> Status:
    return reduce(fold, story, Status())


@pytest.mark.parametrize("end", ["completed", "stopped", "failed"])
def test_the_status_of_a_session_is_that_of_its_last_run(end: RunStatus) -> None:
    state = folded([run_start(), run_end(status=end)])
    assert (state.status, state.round, state.run_id) == (end, 1, "run")


def test_waiting_for_the_user_is_running_and_says_so() -> None:
    state = folded([run_start(), run_end(status="awaiting_user")])
    assert (state.status, state.awaiting_user_input) == ("running", True)


@pytest.mark.requirement("trust.I6")
def test_only_turning_points_change_the_status() -> None:
    turning = [e for e in whole_run() if type_of(e) in TURNING_POINTS]
    assert msgspec.json.encode(folded(turning)) == msgspec.json.encode(folded(whole_run()))
