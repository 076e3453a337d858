"""Tickets: one stream, once, soon."""

import pytest

from stellwerk.errors import Overloaded
from stellwerk.tenants.principals import Principal
from stellwerk.tenants.tickets import AT_ONCE, LASTS, Tickets
from tests.samples import StillClock

ADA = Principal("acme", "reader", "ada")


def test_a_ticket_is_good_once_for_its_session_and_not_for_long() -> None:
    clock = StillClock()
    tickets = Tickets(clock)
    ticket, other, late = (tickets.issue(ADA, "s1") for _ in range(3))
    assert tickets.redeem(ticket.value, "s1") == ADA
    assert tickets.redeem(ticket.value, "s1") is None
    assert tickets.redeem(other.value, "s2") is None
    assert tickets.redeem(other.value, "s1") is None
    clock.pass_by(LASTS)
    assert tickets.redeem(late.value, "s1") is None
    assert tickets.redeem("", "s1") is None


@pytest.mark.parametrize("set_by", [-3600, 3600])
def test_a_clock_that_is_set_makes_a_ticket_last_neither_longer_nor_shorter(set_by: float) -> None:
    clock = StillClock()
    tickets = Tickets(clock)
    ticket, late = tickets.issue(ADA, "s1"), tickets.issue(ADA, "s1")
    clock.set_by(set_by)
    assert tickets.redeem(ticket.value, "s1") == ADA
    clock.pass_by(LASTS)
    assert tickets.redeem(late.value, "s1") is None


def test_a_tenant_that_takes_all_its_tickets_takes_none_from_others() -> None:
    clock = StillClock()
    tickets = Tickets(clock)
    sold = [tickets.issue(ADA, "s1") for _ in range(AT_ONCE)]
    with pytest.raises(Overloaded):
        tickets.issue(ADA, "s1")
    assert tickets.redeem(tickets.issue(Principal("other", "reader"), "s2").value, "s2") is not None
    assert tickets.redeem(sold[0].value, "s1") == ADA
    tickets.issue(ADA, "s1")
    clock.pass_by(LASTS)
    tickets.issue(ADA, "s1")
    assert len(tickets._issued) == 1
