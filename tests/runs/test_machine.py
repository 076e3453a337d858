from typing import get_args

import pytest

from stellwerk.errors import Conflict
from stellwerk.runs.machine import EDGES, Event, Place, advance, place
from stellwerk.views.status import Status


def status(where: Place) -> Status:
    if where == "awaiting":
        return Status(status="running", awaiting_user_input=True, round=1)
    return Status(status=where, round=1)


@pytest.mark.requirement("trust.I8")
@pytest.mark.parametrize("where", get_args(Place))
@pytest.mark.parametrize("event", get_args(Event))
def test_only_the_edges_of_the_table_can_be_taken(where: Place, event: Event) -> None:
    assert place(status(where)) == where
    if (where, event) in EDGES:
        assert advance(status(where), event) == EDGES[where, event]
    else:
        with pytest.raises(Conflict) as refused:
            advance(status(where), event)
        assert refused.value.status == 409


@pytest.mark.parametrize("where", get_args(Place))
def test_stop_is_taken_everywhere(where: Place) -> None:
    advance(status(where), "stop")


def test_a_busy_session_says_in_which_round_it_is() -> None:
    with pytest.raises(Conflict, match="round 1"):
        advance(status("running"), "message")
