"""SIGTERM while sub-agents, workplans and nested graphs are at work, in short: 50 times with ``make crash``."""

import asyncio
import copy
from collections import Counter

import pytest
from msgspec.structs import replace

from stellwerk.envelope.model import Error, RunEnd, ToolEnd
from stellwerk.envelope.payloads import Problem
from tests.crash import term_loop
from tests.crash.term_loop import Outcome, Talk, TermLoop

TERMS = 3
SEED = 11

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return asyncio.run(TermLoop(tmp_path_factory.mktemp("terms"), seed=SEED, say=lambda _: None).run(TERMS))


@pytest.mark.requirement("trust.I10", "trust.I14")
def test_every_run_goes_on_after_each_sigterm_and_completes_and_nothing_is_done_twice(outcome: Outcome) -> None:
    assert not outcome.problems, "\n".join(["", *outcome.problems[:20]])
    assert outcome.terms == TERMS
    assert outcome.effects > 0


def test_the_server_is_asked_to_end_while_others_work_for_a_run(outcome: Outcome) -> None:
    assert outcome.paused["agent"] > 0
    assert outcome.resumed() > 0


def talk_of(outcome: Outcome) -> Talk:
    return copy.deepcopy(outcome.talks[0])


def test_an_effect_that_is_missing_or_doubled_is_noticed(outcome: Outcome) -> None:
    talk = talk_of(outcome)
    done = talk.expected()
    assert not list(term_loop.effect_problems(done, [talk]))
    assert len(list(term_loop.effect_problems(done + Counter([next(iter(done))]), [talk]))) == 1
    assert len(list(term_loop.effect_problems(done - Counter([next(iter(done))]), [talk]))) == 1


def test_an_error_a_failed_call_and_a_failed_run_are_noticed(outcome: Outcome) -> None:
    talk = talk_of(outcome)
    assert not list(term_loop.error_problems(talk))
    end = next(e for e in talk.log if isinstance(e, RunEnd))
    tool = next(e for e in talk.log if isinstance(e, ToolEnd))
    failed = replace(tool, payload=replace(tool.payload, status="error"))
    crashed = replace(end, payload=replace(end.payload, status="failed"))
    place = {name: getattr(end, name) for name in ("ts", "trace_id", "run_id", "parent_id", "call_id", "seq", "agent")}
    error = Error(**place, payload=Problem(code="call_failed", message="porter raised GraphDrained"))
    talk.log = [*talk.log, failed, crashed, error]
    assert len(list(term_loop.error_problems(talk))) == 3


def test_a_message_whose_run_never_ended_is_noticed(outcome: Outcome) -> None:
    talk = talk_of(outcome)
    assert not list(term_loop.run_problems(talk))
    talk.log = [e for e in talk.log if not isinstance(e, RunEnd)]
    assert list(term_loop.run_problems(talk))
