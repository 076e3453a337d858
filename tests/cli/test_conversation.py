"""A conversation continues over several turns, and can be stopped in the middle of any of them."""

import asyncio

import pytest

from stellwerk.cli.run import stopping
from stellwerk.envelope.model import Envelope, RunEnd, ToolEnd, ToolStart, ToolUpdate, type_of
from stellwerk.testing.order import order_problems
from tests.agents.agent_runs import agent, call, calls, say
from tests.cli.conversations import Chat, RecordedView, built, demo, over


class WaitingView(RecordedView):
    """Says when it has seen an envelope of a type."""

    def __init__(self, wanted: type[Envelope]) -> None:
        super().__init__()
        self._wanted, self.found = wanted, asyncio.Event()

    def feed(self, envelope: Envelope) -> None:
        super().feed(envelope)
        written = isinstance(envelope, ToolUpdate) and envelope.payload.phase == "args"
        if isinstance(envelope, self._wanted) and not written:
            self.found.set()


async def stopped_at(chat: Chat, text: str) -> str:
    assert isinstance(chat.view, WaitingView)
    turn = asyncio.create_task(chat.say(text))
    async with asyncio.timeout(20):
        await chat.view.found.wait()
        assert chat.conversation.stop()
        return await turn


@pytest.mark.requirement("trust.I12")
async def test_a_stop_closes_what_is_open_and_shows_it() -> None:
    sleeper = agent("sleeper", call("wait_a_while", seconds=60), tools=["wait_a_while"])
    boss = over(agent("boss", calls(("sleeper", {"task": "sleep"}))), sleeper)
    chat = Chat(await built(boss), view=WaitingView(ToolUpdate))
    assert await stopped_at(chat, "go") == "stopped"
    assert order_problems(chat.view.envelopes) == []
    assert [type_of(e) for e in chat.view.envelopes[-4:]] == ["stop_request", "tool_end", "tool_end", "run_end"]
    assert chat.view.text() == (
        "→ sleeper  task: sleep\n"
        "  sleeper │ → wait_a_while  seconds: 60\n"
        "          │ ■ wait_a_while  stopped after 0.0 s\n"
        "■ sleeper  stopped after 0.0 s\n"
        "stopped in 0.0 s · 2 model calls · 1 tool call · scripted 2 → 7 tokens\n"
    )


async def test_after_a_stop_the_conversation_continues() -> None:
    chat = Chat(await demo(), view=WaitingView(ToolStart))
    assert await stopped_at(chat, "slow") == "stopped"
    assert not chat.conversation.stop()
    assert await chat.say("file") == "completed"
    assert order_problems(chat.view.envelopes) == []


async def test_an_agent_remembers_what_was_said_before() -> None:
    chat = Chat(await built(agent("a", say("You said {message}"))))
    await chat.say("one")
    await chat.say("two")
    ends = [e.payload for e in chat.view.envelopes if isinstance(e, RunEnd)]
    assert [end.result for end in ends] == ["You said one", "You said two"]
    assert ends[1].usage[0].input_tokens > ends[0].usage[0].input_tokens


async def test_wherever_a_run_is_stopped_its_envelopes_are_legal() -> None:
    chat = Chat(await demo())
    await chat.say("delegate")
    log = chat.view.envelopes
    for length in range(1, len(log)):
        ends = list(stopping(log[:length], 9.0))
        assert order_problems([*log[:length], *ends]) == []
        assert not any(e.payload.status == "ok" for e in ends if isinstance(e, ToolEnd))
