"""Talks in this process: a real agent, a screen to look at, and somebody who types what a test says."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stellwerk.agents.factory import AgentFactory
from stellwerk.agents.memory import memory_saver
from stellwerk.agents.pool import Pool
from stellwerk.agents.runnable import RunnableAgent
from stellwerk.demo import demo_yaml
from stellwerk.envelope.model import Envelope
from stellwerk.ids import SystemClock
from stellwerk.spec.load import read_system
from stellwerk.spec.model import AgentAsTool, CompleteAgent
from stellwerk.terminal.asking import Asker, AtTheKeyboard, Defaults
from stellwerk.terminal.keyboard import Keyboard
from stellwerk.terminal.pen import Pen
from stellwerk.terminal.screen import Screen
from stellwerk.terminal.talk import Talk
from stellwerk.terminal.views import Watching
from tests.terminal.ttys import timeless


class Typist(Keyboard):
    """Types these lines, one for each prompt; then there are no more."""

    def __init__(self, lines: Sequence[str], screen: "Watched") -> None:
        super().__init__()
        self._lines, self._screen = list(lines), screen

    async def line(self, prompt: str) -> str:
        if not self._lines:
            raise EOFError
        typed = self._lines.pop(0)
        self._screen.say(prompt + typed)
        return typed


class Watched(Watching):
    """What is shown of a talk, without colours and without an end of the row."""

    def __init__(self, *, answer: bool = True) -> None:
        self._file = io.StringIO()
        super().__init__(Screen(Pen(self._file)), SystemClock(), answer=answer)
        self.envelopes: list[Envelope] = []

    def feed(self, position: int, envelope: Envelope) -> None:
        assert position == len(self.envelopes) + 1
        self.envelopes.append(envelope)
        super().feed(position, envelope)

    def show(self, envelope: Envelope) -> None:
        """Of a log that is read from any place in it."""
        super().feed(0, envelope)

    def text(self) -> str:
        return timeless(self.written())

    def written(self) -> str:
        return self._file.getvalue()


@dataclass
class Sitting:
    """One talk, and what was seen of it."""

    agent: RunnableAgent
    typed: Sequence[str] | None = None
    """None if nobody sits there."""
    seen: Watched = field(default_factory=Watched)

    def __post_init__(self) -> None:
        asker: Asker = Defaults(self.seen)
        if self.typed is not None:
            asker = AtTheKeyboard(self.seen, Typist(self.typed, self.seen), self.agent.name)
        self.talk = Talk(self.agent, "s1", self.seen, asker, SystemClock())

    async def say(self, text: str) -> str:
        """How the turn ended."""
        return (await self.talk.turn(text)).status


async def built(agent: CompleteAgent, **pool: Any) -> RunnableAgent:
    return await AgentFactory(Pool(saver=memory_saver(), **pool)).build(agent)


def over(agent: CompleteAgent, *below: CompleteAgent) -> CompleteAgent:
    """The agent with others as its tools."""
    return agent.model_copy(update={"agents_as_tools": [AgentAsTool(agent=one) for one in below]})


async def demo() -> RunnableAgent:
    """Without its pauses."""
    factory = AgentFactory(Pool(saver=memory_saver()))
    loaded = read_system(demo_yaml().replace("pace: 0.03", "pace: 0.0"), source="demo.yaml")
    return await factory.build((await factory.admitted(loaded)).root, loaded.system.system)
