"""IsolatedAgent: a graph that runs in a worker. For the server it is an agent like any other."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import msgspec

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.graphs import parameters as given_with
from stellwerk.agents.graphs.input import GraphInput
from stellwerk.agents.isolated.pool import WorkerPool
from stellwerk.agents.isolated.process import Scope, WorkerProcess
from stellwerk.agents.isolated.turn_wire import packed_turn, state_of
from stellwerk.agents.runtime.callback_handler import EmitFact
from stellwerk.agents.runtime.context import Pause, RunContext, run_context
from stellwerk.agents.runtime.conversation import RunParameters, Turn
from stellwerk.agents.runtime.run_config import effective
from stellwerk.agents.runtime.runnable import RunnableAgent, RunOptions
from stellwerk.agents.runtime.saved_states import PreparedUpdate, SavedState, StateUpdate
from stellwerk.errors import QuotaExceeded, WorkerLost
from stellwerk.ids import Clock
from stellwerk.stream.facts import Declined
from stellwerk.views.questions import GoOn


@dataclass(frozen=True, slots=True)
class GraphDescription:
    """What the worker says of a graph."""

    schemas: dict[str, Any]
    wants_user_id: bool
    key: str | None
    form: Any
    wants_more: bool
    uses_store: bool


async def describe(pool: WorkerPool, spec: Mapping[str, Any]) -> GraphDescription:
    """Open the graph in a worker.

    Raises:
        BrokenReference: it cannot be imported or opened.
        WorkerLost: the worker cannot be started, or ends meanwhile.
    """
    async with pool.worker(spec["tenant"]) as worker:
        return GraphDescription(**await worker.call("describe", spec))


class IsolatedAgent(RunnableAgent):
    def __init__(
        self,
        name: str,
        described: GraphDescription,
        *,
        pool: WorkerPool,
        spec: Mapping[str, Any],
        saver: DurableSaver,
        options: RunOptions,
    ) -> None:
        super().__init__(name, None, graph_input=GraphInput(described.key, described.form), options=options)
        self._described, self._pool, self._spec = described, pool, spec
        self._own_saver = saver
        self.elsewhere = self
        self.lag = pool.window / 2  # they wait for the end of a window, half of it on average

    @property
    def _saver(self) -> DurableSaver:
        return self._own_saver

    @property
    def wants_user_id(self) -> bool:
        return self._described.wants_user_id

    async def drive(self, turn: Turn, emit: EmitFact, clock: Clock) -> None:
        if any(isinstance(given, GoOn) and not given.goes_on for given in turn.answers.values()):
            emit(Declined())
            return
        found = effective(turn.parameters, self.options.defaults, own_graph=True)
        turn = replace(turn, parameters=given_with.with_secrets(found, self.options.find_secret))
        context = run_context()
        given = {
            **packed_turn(turn),
            "system": context.system,
            "data": str(context.data),
            "blocked_loop": context.timings.blocked_loop,
            "ahead": clock.now() - clock.steady(),
            "steps_left": inf if context.usage is None else context.usage.steps_left(),
        }
        async with self._pool.worker(self._spec["tenant"]) as worker:
            await self._drive_in(worker, turn, given, Scope(self._spec["tenant"], context, emit))

    async def _drive_in(self, worker: WorkerProcess, turn: Turn, given: Mapping[str, Any], scope: Scope) -> None:
        number = worker.open_scope(scope)
        if isinstance(turn.pause, Pause):
            turn.pause.when_requested(lambda: worker.channel.notify("drain", number))
        try:
            await worker.call("drive", number, self._spec, given)
        except asyncio.CancelledError:  # the run was stopped, or the server shuts down
            worker.abandon(number)
            raise
        except QuotaExceeded:
            if scope.context.usage is not None:
                scope.context.usage.check()  # it knows which quota
            raise
        finally:
            worker.close_scope(number)

    async def check(self, turn: Turn) -> None:
        if turn.parameters.is_empty and not self._described.wants_more:
            return
        await self._call("check", packed_turn(turn))
        given_with.with_secrets(turn.parameters.over(self.options.defaults), self.options.find_secret)

    async def check_given(self, given: RunParameters) -> None:
        if not given.is_empty:
            await self._call("check_given", [given.input, given.config, given.context])
            given_with.with_secrets(given, self.options.find_secret)

    async def settled(self, session_id: str, checkpoints: Collection[str]) -> set[str]:
        return set(await self._call("settled", session_id, list(checkpoints)))

    async def read_state(self, session_id: str, checkpoint_id: str | None) -> SavedState | None:
        found = await self._call("read_state", session_id, checkpoint_id)
        return None if found is None else state_of(found)

    async def state_history(self, session_id: str, *, before: str | None, limit: int) -> AsyncIterator[SavedState]:
        for packed in await self._call("history", session_id, before, limit):
            yield state_of(packed)

    async def prepare_update(self, session_id: str, epoch: int, update: StateUpdate) -> PreparedUpdate:
        prepared = PreparedUpdate("")
        async with self._pool.worker(self._spec["tenant"]) as worker:
            number = worker.open_scope(Scope(self._spec["tenant"], RunContext(journal=prepared)))
            try:
                given = [update.values, update.as_node, update.checkpoint_id]
                prepared.node = await worker.call("prepare_update", number, self._spec, session_id, epoch, given)
            finally:
                worker.close_scope(number)
        return prepared

    async def _call(self, method: str, *given: Any) -> Any:
        """Ask a worker, and another one if it ends meanwhile: nothing is changed by asking."""
        try:
            async with self._pool.worker(self._spec["tenant"]) as worker:
                return await worker.call(method, self._spec, *given)
        except WorkerLost:
            async with self._pool.worker(self._spec["tenant"]) as worker:
                return await worker.call(method, self._spec, *given)


def options_of(options: RunOptions) -> str:
    """The options that a run in a worker has, as JSON."""
    defaults = msgspec.to_builtins(options.defaults)
    given = {"quotas": options.quotas.model_dump(), "store_prompts": options.store_prompts, "defaults": defaults}
    return msgspec.json.encode(given).decode()
