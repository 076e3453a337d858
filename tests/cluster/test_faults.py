"""Faults of nodes, network and database under load, in short: 200 times with ``make cluster``."""

import asyncio
from pathlib import Path

import pytest

from tests.cluster import fault_loop
from tests.cluster.fault_loop import Outcome

SEED = 5
LEASE = 2.0
KINDS = ("kill", "pause", "cut database", "restart database")

pytestmark = [pytest.mark.timeout(1800), pytest.mark.only_postgres]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder: Path = tmp_path_factory.mktemp("faults")
    return asyncio.run(fault_loop.run(folder, KINDS, seed=SEED, lease=LEASE, say=lambda _: None, is_short=True))


@pytest.mark.requirement("trust.I1", "trust.I2", "trust.I3", "trust.I10", "trust.I12")
def test_what_any_node_acknowledged_or_showed_survives_faults_of_nodes_network_and_database(outcome: Outcome) -> None:
    assert not outcome.problems, "\n".join(["", *outcome.problems[:20]])
    assert [*outcome.faults] == [*KINDS]


def test_the_faults_hit_runs_and_readers_at_work(outcome: Outcome) -> None:
    assert outcome.ledger.frames() > 0
    assert outcome.effects > 0
    assert outcome.reconnected > 0


def test_a_takeover_that_takes_too_long_is_noticed() -> None:
    times = [LEASE + fault_loop.USUALLY] * 19
    assert not Outcome(takeovers=[*times, LEASE + fault_loop.ALWAYS]).late(LEASE)
    assert len(Outcome(takeovers=[*times, LEASE + fault_loop.ALWAYS + 0.1]).late(LEASE)) == 1
    assert len(Outcome(takeovers=[*times[2:], *[LEASE + fault_loop.ALWAYS] * 2]).late(LEASE)) == 1
