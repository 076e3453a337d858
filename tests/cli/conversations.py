"""Conversations in this process: a real agent, a recorded screen, and a keyboard that types lines of the test."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import memory_saver
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.cli.questions import Questions
from stellwerk.cli.render.screen import Screen
from stellwerk.cli.render.session_view import SessionView
from stellwerk.cli.run import Conversation
from stellwerk.cli.terminal import Keyboard
from stellwerk.demo import demo_yaml
from stellwerk.envelope.model import Envelope
from stellwerk.ids import SystemClock
from stellwerk.spec.load import load_system
from stellwerk.spec.model import AgentAsTool, CompleteAgent
from tests.cli.pseudo_terminal import timeless


class ScriptedKeyboard(Keyboard):
    """Types these lines, one for each prompt; then there are no more."""

    def __init__(self, lines: Sequence[str], screen: Screen) -> None:
        super().__init__()
        self._lines, self._screen = list(lines), screen

    async def line(self, prompt: str) -> str:
        if not self._lines:
            raise EOFError
        typed = self._lines.pop(0)
        self._screen.say(prompt + typed)
        return typed


class RecordedView(SessionView):
    """A view that keeps what it shows, without colours and without an end of the row."""

    def __init__(self, *, answer: bool = True) -> None:
        self._file = io.StringIO()
        super().__init__(Screen(self._file), SystemClock().now, answer=answer)
        self.envelopes: list[Envelope] = []

    def feed(self, envelope: Envelope) -> None:
        self.envelopes.append(envelope)
        super().feed(envelope)

    def text(self) -> str:
        return timeless(self.written())

    def written(self) -> str:
        return self._file.getvalue()


@dataclass
class Chat:
    """A conversation, and what was shown of it."""

    agent: RunnableAgent
    typed: Sequence[str] | None = None
    """None if there is no user."""
    view: RecordedView = field(default_factory=RecordedView)

    def __post_init__(self) -> None:
        screen = self.view.screen
        keyboard = ScriptedKeyboard(self.typed or (), screen)
        questions = Questions(screen, keyboard, self.agent.name, has_user=self.typed is not None)
        self.conversation = Conversation(self.agent, "s1", self._show, questions)

    def _show(self, position: int, envelope: Envelope) -> None:
        self.view.feed(envelope)
        assert position == len(self.view.envelopes)

    async def say(self, text: str) -> str:
        """How the turn ended."""
        return (await self.conversation.turn(text)).status


async def built(agent: CompleteAgent, **resources: Any) -> RunnableAgent:
    return await AgentFactory(Resources(saver=memory_saver(), **resources)).build(agent)


def over(agent: CompleteAgent, *below: CompleteAgent) -> CompleteAgent:
    """The agent with others as its tools."""
    return agent.model_copy(update={"agents_as_tools": [AgentAsTool(agent=one) for one in below]})


async def demo() -> RunnableAgent:
    """Without its pauses."""
    factory = AgentFactory(Resources(saver=memory_saver()))
    loaded = load_system(demo_yaml().replace("pace: 0.03", "pace: 0.0"), source="demo.yaml")
    return await factory.build((await factory.admitted(loaded)).root, loaded.system.system)
