"""Budgets: the step limit of each agent, and the quotas of a whole run.

``spending`` opens the budget of a run. Inside, every agent has its own budget, and every tool call
an unlimited one that only counts. A cost counts in all enclosing budgets, so a sub-agent never has
more than its callers have left. Calls of limited tools are counted in the same way. Parallel tool
calls run in tasks whose copied contexts share these objects.

A budget starts empty, also when a run continues after an interrupt or a crash. Before each model
and tool call the agent adds the cost that its conversation shows (``catch_up``), and what is new
counts in the enclosing budgets. The cost of finished parallel calls is read from their stored
results, which are not in the conversation yet.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from langchain_core.messages import BaseMessage

from stellwerk.agents.runtime.context import check_quotas
from stellwerk.agents.runtime.conversation import Cost
from stellwerk.errors import QuotaExceeded
from stellwerk.spec.model import Quotas


class Budget:
    def __init__(
        self,
        limit: int | None = None,
        quotas: Quotas | None = None,
        parent: "Budget | None" = None,
        agent: str | None = None,
    ) -> None:
        self.limit, self.parent, self.agent = limit, parent, agent
        self.quotas = quotas or Quotas()
        self.spent = Cost()
        self.parallel_results: Sequence[BaseMessage] | None = None
        """Tool results of the agent's turn from before an interrupt; None if not read yet."""
        self.refusals: dict[str, dict[str, str]] = {}
        """For each turn of the agent the reasons for refused tool calls, by call id."""
        self._agents: dict[str, Budget] = {}
        self._began = time.monotonic()

    @property
    def used(self) -> int:
        return self.spent.steps

    def of(self, place: str, *, agent: str, limit: int) -> "Budget":
        """The budget of an agent inside this one, shared by all its calls, also parallel ones."""
        if place not in self._agents:
            self._agents[place] = Budget(limit, parent=self, agent=agent)
        return self._agents[place]

    def around(self) -> Iterator["Budget"]:
        """This budget and all enclosing ones, from the inside out."""
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget.parent

    def spend(self, spent: Cost) -> None:
        for budget in self.around():
            budget.spent += spent

    def catch_up(self, known: Cost, *, seconds: float = 0.0) -> None:
        """Add the part of a known cost that is not counted yet."""
        self.spend(known.beyond(self.spent))
        *_, run = self.around()
        run._began = min(run._began, time.monotonic() - seconds)

    def seconds(self) -> float | None:
        """The run's running time, including that before an interrupt; None if not limited."""
        *_, run = self.around()
        return None if run.quotas.seconds is None else round(time.monotonic() - run._began, 3)

    def used_up(self) -> "Budget | None":
        """The innermost budget without steps left."""
        return next((b for b in self.around() if b.limit is not None and b.used >= b.limit), None)

    def check(self) -> None:
        """Raise ``QuotaExceeded`` if a quota of the run or of its tenant is used up."""
        check_quotas()
        for budget in self.around():
            _within("steps", budget.spent.steps, budget.quotas.steps)
            _within("tokens", budget.spent.tokens, budget.quotas.tokens)
            _within("seconds", time.monotonic() - budget._began, budget.quotas.seconds)

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Cancel the block, and raise ``QuotaExceeded``, when the seconds of the run are used up."""
        limited = [budget for budget in self.around() if budget.quotas.seconds]
        nearest = min(limited, key=Budget._left, default=None)
        cut = asyncio.timeout(nearest._left() if nearest else None)
        try:
            async with cut:
                yield
        except TimeoutError:
            if nearest is None or not cut.expired():  # not ours
                raise
            limit = nearest.quotas.seconds or 0
            raise QuotaExceeded("seconds", used=limit, limit=limit) from None

    def _left(self) -> float:
        return self._began + (self.quotas.seconds or 0) - time.monotonic()


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


def current() -> Budget:
    """The innermost budget; an unlimited one outside of ``spending``."""
    return _current.get() or Budget()


@contextmanager
def spending(
    *, limit: int | None = None, quotas: Quotas | None = None, within: Budget | None = None
) -> Iterator[Budget]:
    """A budget for the block: at most ``limit`` steps, ``quotas`` and the enclosing budgets."""
    budget = Budget(limit, quotas, within or _current.get())
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)


def _within(quota: str, used: float, limit: float | None) -> None:
    if limit is not None and used >= limit:
        raise QuotaExceeded(quota, used=used, limit=limit)
