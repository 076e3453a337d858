"""The state machine of a session: what a message, an answer and a stop do in each of its states."""

import pytest

from stellwerk.envelope.payloads import Answered
from stellwerk.errors import Conflict
from stellwerk.tenants.principals import LOCAL_TENANT
from tests.runs.in_process import Gates, InProcessServer, refusal

REACHED_BY = {"idle": None, "running": "work", "awaiting": "ask", "completed": "quick", "failed": "fail"}


async def brought_to(backend: InProcessServer, gates: Gates, state: str) -> str:
    """A session in this state."""
    sid = await backend.begin()
    text = REACHED_BY.get(state, "work")
    if text is None:
        return sid
    await backend.sessions.send(LOCAL_TENANT, sid, f"{text} here")
    if state in ("running", "stopped"):
        await gates.reached("work here", 1)
    if state == "stopped":
        await backend.sessions.stop(LOCAL_TENANT, sid)
    shown = "running" if state == "awaiting" else state
    await backend.settled(sid, {"status": shown, "awaiting_user_input": state == "awaiting"})
    return sid


@pytest.mark.requirement("trust.I8")
@pytest.mark.parametrize(
    ("state", "message", "answer", "stopped"),
    [
        ("idle", None, "nothing_asked", "idle"),
        ("running", "session_busy", "nothing_asked", "stopped"),
        ("awaiting", None, None, "stopped"),
        ("completed", None, "nothing_asked", "completed"),
        ("failed", None, "nothing_asked", "failed"),
        ("stopped", None, "nothing_asked", "stopped"),
    ],
)
async def test_each_state_takes_what_it_can_and_refuses_the_rest_unchanged(
    backend: InProcessServer, gates: Gates, state: str, message: str | None, answer: str | None, stopped: str
) -> None:
    sid = await brought_to(backend, gates, state)
    before = await backend.sessions.find(LOCAL_TENANT, sid)
    unchanged = {"status": before.status, "round": before.round, "awaiting_user_input": before.awaiting_user_input}
    if answer is not None:
        given = Answered(ask_id="", text="blue")
        assert await refusal(backend.sessions.answer(LOCAL_TENANT, sid, given)) == answer
    if message is not None:
        assert await refusal(backend.sessions.send(LOCAL_TENANT, sid, "quick")) == message
    await backend.settled(sid, unchanged)

    assert (await backend.sessions.stop(LOCAL_TENANT, sid)).status == stopped
    again = await backend.sessions.find(LOCAL_TENANT, sid)
    assert (await backend.sessions.stop(LOCAL_TENANT, sid)).status == stopped
    assert await backend.sessions.find(LOCAL_TENANT, sid) == again

    accepted = await backend.sessions.send(LOCAL_TENANT, sid, "quick")
    assert accepted.round == again.round + 1
    await backend.settled(sid, {"status": "completed", "round": accepted.round})


async def test_a_busy_session_says_in_which_round_it_is(backend: InProcessServer, gates: Gates) -> None:
    sid = await brought_to(backend, gates, "running")
    with pytest.raises(Conflict, match="still working on round 1"):
        await backend.sessions.send(LOCAL_TENANT, sid, "quick")


async def test_a_message_to_a_session_with_one_open_question_is_its_answer(
    backend: InProcessServer, gates: Gates
) -> None:
    sid = await brought_to(backend, gates, "awaiting")
    accepted = await backend.sessions.send(LOCAL_TENANT, sid, "blue")
    assert accepted.ask_id
    await backend.settled(sid, {"status": "completed", "round": 2})
