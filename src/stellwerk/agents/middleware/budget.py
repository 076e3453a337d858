"""What agents may use up: each its own steps, and all of one run together its quotas.

Whoever drives a run enters ``spending`` around it. Inside, every agent has a budget of its own, and every tool call
one that knows no limit and only counts. What is spent in one is spent in all those around it, so a sub-agent never has
more than the agents that it works for have left. Calls of tools that are limited are counted in the same way.
Parallel tool calls run in tasks of their own; a task copies the context, and the copies share these objects.

A budget begins empty, also when a run goes on after a question or a crash. Before each model and tool call its agent
tells it what the conversation shows as spent (``catch_up``), and what is new in that is passed on outwards. What
finished siblings of a waiting tool call have spent is read from their stored results, which are not in the
conversation yet.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from langchain_core.messages import BaseMessage

from stellwerk.agents import metering
from stellwerk.agents.middleware.conversation import Spent
from stellwerk.errors import QuotaExceeded
from stellwerk.spec.model import Quotas


class Budget:
    def __init__(
        self,
        limit: int | None = None,
        quotas: Quotas | None = None,
        parent: "Budget | None" = None,
        *,
        agent: str | None = None,
    ) -> None:
        self.limit, self.parent, self.agent = limit, parent, agent
        self.quotas = quotas or Quotas()
        self.spent = Spent()
        self.siblings: Sequence[BaseMessage] | None = None
        """Of the agent's current turn: the results of tool calls that were done before a question; None if not read."""
        self.refusals: dict[str, dict[str, str]] = {}
        """For each turn of the agent why some of its tool calls may not run, by the ids of the calls."""
        self._agents: dict[str, Budget] = {}
        self._began = time.monotonic()

    @property
    def used(self) -> int:
        return self.spent.steps

    def of(self, place: str, *, agent: str, limit: int) -> "Budget":
        """The budget of an agent that runs inside this one: the same for all its calls, also parallel ones."""
        if place not in self._agents:
            self._agents[place] = Budget(limit, parent=self, agent=agent)
        return self._agents[place]

    def around(self) -> Iterator["Budget"]:
        """This budget and all those around it, from the inside out."""
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget.parent

    def spend(self, spent: Spent) -> None:
        for budget in self.around():
            budget.spent += spent

    def catch_up(self, known: Spent, *, seconds: float = 0.0) -> None:
        """Count what was spent before this budget began, as far as it is not counted yet."""
        if (missing := known.beyond(self.spent)) != _NOTHING:
            self.spend(missing)
        *_, run = self.around()
        run._began = min(run._began, time.monotonic() - seconds)

    def seconds(self) -> float | None:
        """How long the run has been at work, before the last question too; None if nobody limits it."""
        *_, run = self.around()
        return None if run.quotas.seconds is None else round(time.monotonic() - run._began, 3)

    def used_up(self) -> "Budget | None":
        """The nearest budget, from here outwards, in which no step is left."""
        return next((b for b in self.around() if b.limit is not None and b.used >= b.limit), None)

    def check(self) -> None:
        """Refuse another model call when a quota is used up, or what the tenant may use.

        Raises:
            QuotaExceeded: the run ends as failed.
        """
        metering.check()
        for budget in self.around():
            _within("steps", budget.spent.steps, budget.quotas.steps)
            _within("tokens", budget.spent.tokens, budget.quotas.tokens)
            _within("seconds", time.monotonic() - budget._began, budget.quotas.seconds)

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Cut off what runs inside when the seconds of the run are over.

        Raises:
            QuotaExceeded: they are.
        """
        nearest = min((b for b in self.around() if b.quotas.seconds), key=Budget._left, default=None)
        cut = asyncio.timeout(nearest._left() if nearest else None)
        try:
            async with cut:
                yield
        except TimeoutError:
            if nearest is None or not cut.expired():  # somebody else's
                raise
            limit = nearest.quotas.seconds or 0
            raise QuotaExceeded("seconds", used=limit, limit=limit) from None

    def _left(self) -> float:
        return self._began + (self.quotas.seconds or 0) - time.monotonic()


_NOTHING = Spent()
_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


def current() -> Budget:
    """The innermost budget; one without limits where nobody entered any."""
    return _current.get() or Budget()


@contextmanager
def spending(
    *, limit: int | None = None, quotas: Quotas | None = None, within: Budget | None = None
) -> Iterator[Budget]:
    """Count what agents spend inside: at most ``limit`` steps, and no more than ``quotas`` and all around allow."""
    budget = Budget(limit, quotas, within or _current.get())
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)


def _within(quota: str, used: float, limit: float | None) -> None:
    if limit is not None and used >= limit:
        raise QuotaExceeded(quota, used=used, limit=limit)
