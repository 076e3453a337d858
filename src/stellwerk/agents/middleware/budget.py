"""What agents may use up: each its own steps, and all of one run together its quotas.

Whoever drives a run enters ``spending`` around it. Inside, every agent has a budget of its own, and every tool call
one that knows no limit and only counts. What is spent in one is spent in all those around it, so a sub-agent never has
more than the agents that it works for have left. Parallel tool calls run in tasks of their own; a task copies the
context, and the copies share these objects.

A budget begins empty, also when a run goes on after a question or a crash. Before each model and tool call its agent
tells it what the conversation shows as spent (``catch_up``), and what is new in that is passed on outwards. Only what a
finished sibling of a waiting tool call has spent is known one step later, when its result is in the conversation.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from stellwerk.agents.middleware.conversation import Spent
from stellwerk.errors import QuotaExceeded
from stellwerk.spec.model import Quotas


class Budget:
    def __init__(self, limit: int | None = None, quotas: Quotas | None = None, parent: "Budget | None" = None) -> None:
        self.limit, self.parent = limit, parent
        self.quotas = quotas or Quotas()
        self.spent = Spent()
        self._agents: dict[str, Budget] = {}
        self._began = time.monotonic()

    @property
    def used(self) -> int:
        return self.spent.steps

    def of(self, agent: str, limit: int) -> "Budget":
        """The budget of an agent that runs inside this one: the same for all its calls, also parallel ones."""
        return self._agents.setdefault(agent, Budget(limit, parent=self))

    def around(self) -> Iterator["Budget"]:
        """This budget and all those around it, from the inside out."""
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget.parent

    def spend(self, spent: Spent) -> None:
        for budget in self.around():
            budget.spent += spent

    def catch_up(self, known: Spent) -> None:
        """Count what was spent before this budget began, as far as it is not counted yet."""
        self.spend(Spent(max(0, known.steps - self.spent.steps), max(0, known.tokens - self.spent.tokens)))

    def used_up(self) -> "Budget | None":
        """The nearest budget, from here outwards, in which no step is left."""
        return next((b for b in self.around() if b.limit is not None and b.used >= b.limit), None)

    def check(self) -> None:
        """Refuse another model call when a quota is used up.

        Raises:
            QuotaExceeded: the run ends as failed.
        """
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
