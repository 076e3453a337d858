"""A talk goes on over several turns, and can be stopped in the middle of any of them."""

import asyncio

import pytest

from stellwerk.envelope.model import Envelope, RunEnd, ToolEnd, ToolStart, ToolUpdate, type_of
from stellwerk.envelope.order import legal
from stellwerk.terminal.talk import stopping
from tests.agents.driving import agent, call, calls, say
from tests.terminal.talks import Sitting, Watched, built, demo, over


class Watchful(Watched):
    """Says when it has seen an envelope of a type."""

    def __init__(self, wanted: type[Envelope]) -> None:
        super().__init__()
        self._wanted, self.seen_it = wanted, asyncio.Event()

    def feed(self, position: int, envelope: Envelope) -> None:
        super().feed(position, envelope)
        written = isinstance(envelope, ToolUpdate) and envelope.payload.phase == "args"
        if isinstance(envelope, self._wanted) and not written:
            self.seen_it.set()


async def stopped_at(sitting: Sitting, text: str) -> str:
    assert isinstance(sitting.seen, Watchful)
    turn = asyncio.create_task(sitting.say(text))
    async with asyncio.timeout(20):
        await sitting.seen.seen_it.wait()
        assert sitting.talk.stop()
        return await turn


@pytest.mark.requirement("trust.I12")
async def test_a_stop_closes_what_is_open_and_shows_it() -> None:
    sleeper = agent("sleeper", call("wait_a_while", seconds=60), tools=["wait_a_while"])
    desk = over(agent("desk", calls(("sleeper", {"task": "sleep"}))), sleeper)
    sitting = Sitting(await built(desk), seen=Watchful(ToolUpdate))
    assert await stopped_at(sitting, "go") == "stopped"
    assert legal(sitting.seen.envelopes) == []
    assert [type_of(e) for e in sitting.seen.envelopes[-4:]] == ["stop_request", "tool_end", "tool_end", "run_end"]
    assert sitting.seen.text() == (
        "→ sleeper  task: sleep\n"
        "  sleeper │ → wait_a_while  seconds: 60\n"
        "          │ ■ wait_a_while  stopped after 0.0 s\n"
        "■ sleeper  stopped after 0.0 s\n"
        "stopped in 0.0 s · 2 model calls · 1 tool call · scripted 2 → 7 tokens\n"
    )


async def test_after_a_stop_the_talk_goes_on() -> None:
    sitting = Sitting(await demo(), seen=Watchful(ToolStart))
    assert await stopped_at(sitting, "slow") == "stopped"
    assert not sitting.talk.stop()
    assert await sitting.say("file") == "completed"
    assert legal(sitting.seen.envelopes) == []


async def test_an_agent_remembers_what_was_said_before() -> None:
    sitting = Sitting(await built(agent("a", say("You said {message}"))))
    await sitting.say("one")
    await sitting.say("two")
    ends = [e.payload for e in sitting.seen.envelopes if isinstance(e, RunEnd)]
    assert [end.result for end in ends] == ["You said one", "You said two"]
    assert ends[1].usage[0].input_tokens > ends[0].usage[0].input_tokens


async def test_wherever_a_run_is_stopped_what_was_told_of_it_is_legal() -> None:
    sitting = Sitting(await demo())
    await sitting.say("delegate")
    story = sitting.seen.envelopes
    for length in range(1, len(story)):
        ends = list(stopping(story[:length], 9.0))
        assert legal([*story[:length], *ends]) == []
        assert not any(e.payload.status == "ok" for e in ends if isinstance(e, ToolEnd))
