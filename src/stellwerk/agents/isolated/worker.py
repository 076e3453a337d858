"""The worker: runs graphs of one project, in a process and perhaps an environment of its own.

It imports the graphs, runs LangGraph with the callback handler that graphs in the server have, and
sends the facts. The server records them, stores checkpoints and keeps the store. The modules that
are imported here need only what the environment of a LangGraph project has, and `msgspec` and
`structlog`, which the server lends.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec
import structlog
from langchain_core.runnables import RunnableConfig

import stellwerk
from stellwerk import threads
from stellwerk.agents.graphs.import_reference import load_all, load_reference
from stellwerk.agents.graphs.input import Graph, GraphInput, find_input
from stellwerk.agents.graphs.project_modules import keep_apart
from stellwerk.agents.graphs.registry import (
    Builder,
    GraphEntry,
    Graphs,
    adopted,
    allowed_type,
    check_nodes,
    graph_of_run,
    inspect_graph,
    is_made_for_each_run,
    open_graph,
)
from stellwerk.agents.graphs.schemas import graph_schemas
from stellwerk.agents.isolated.channel import WorkerChannel
from stellwerk.agents.isolated.limits import apply_limits
from stellwerk.agents.isolated.remote_state import (
    RemoteCalls,
    RemoteDocuments,
    RemoteJournal,
    RemoteSaver,
    RemoteStore,
    RemoteUsage,
    enter_scope,
)
from stellwerk.agents.isolated.turn_wire import packed_state, turn_of
from stellwerk.agents.isolated.wire import LOG_LINE
from stellwerk.agents.runtime import graph_state, tracing
from stellwerk.agents.runtime.context import RunContext, running_in
from stellwerk.agents.runtime.conversation import RunParameters
from stellwerk.agents.runtime.images import image_input
from stellwerk.agents.runtime.langgraph_features import RunControl
from stellwerk.agents.runtime.loopback import answer_loopback_clients
from stellwerk.agents.runtime.runnable import GraphOfRun, RunnableAgent, RunOptions
from stellwerk.agents.runtime.saved_states import StateUpdate
from stellwerk.agents.runtime.watchdog import watched_loop
from stellwerk.agents.store.references import uses_store
from stellwerk.errors import QuotaExceeded
from stellwerk.ids import SystemClock
from stellwerk.spec.model import Quotas
from stellwerk.stream.facts import Fact
from stellwerk.timings import Timings


def work(request: dict[str, Any], answer: int) -> NoReturn:
    os.close(answer)
    apply_limits(request)
    structlog.configure(processors=[structlog.processors.format_exc_info, _log_line], cache_logger_on_first_use=True)
    folders = [Path(folder) for folder in request["folders"]]
    if request["apart"]:
        keep_apart(folders)
    else:
        sys.path.extend(str(folder) for folder in folders if str(folder) not in sys.path)
    tracing.trace_in_place()
    answer_loopback_clients()
    run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run
    with suppress(ImportError):
        import uvloop

        run = uvloop.run
    run(_serve(request))
    threads.exit_now(0)


def _log_line(_logger: Any, method: str, event: Any) -> str:
    return LOG_LINE + json.dumps({**event, "level": method}, default=str)


async def _serve(request: Mapping[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(threads.exits_contained)
    loop.set_default_executor(threads.RunThreads())
    threads.collect_seldom(loop)
    async with AsyncExitStack() as resources:
        worker = _Worker(resources)
        transport, _ = await loop.create_unix_connection(lambda: worker.channel, request["socket"])
        bell, _ = await loop.create_unix_connection(asyncio.Protocol, request["socket"])
        for each in (transport, bell):
            _keep_from_children(each.get_extra_info("socket").fileno())
        worker.channel.bell = bell
        worker.channel.notify("hello", stellwerk.__version__)
        with watched_loop(request["watchdog"]):
            await worker.over.wait()


def _keep_from_children(socket: int) -> None:
    """A process that the project forks has no part in the conversation with the server."""

    def silence() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, socket)
        os.close(null)

    os.register_at_fork(after_in_child=silence)


class _Scope:
    """A run in this worker."""

    def __init__(self, usage: RemoteUsage, task: "asyncio.Task[Any] | None") -> None:
        self.usage, self.task = usage, task
        self.pause = RunControl()


class _Worker:
    def __init__(self, resources: AsyncExitStack) -> None:
        self.channel = WorkerChannel(self)
        self.over = asyncio.Event()
        self._resources = resources
        self._agents: dict[tuple[str, ...], RunnableAgent] = {}
        self._described: dict[str, dict[str, Any]] = {}
        self._opening = asyncio.Lock()
        self._scopes: dict[int, _Scope] = {}
        self._methods: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
            "describe": self._describe,
            "drive": self._drive,
            "cancel": self._cancel,
            "check": self._check,
            "check_given": self._check_given,
            "settled": self._settled,
            "read_state": self._read_state,
            "history": self._history,
            "prepare_update": self._prepare_update,
        }

    async def answer(self, method: str, given: list[Any]) -> Any:
        return await self._methods[method](*given)

    def notified(self, method: str, given: list[Any]) -> None:
        scope = self._scopes.get(given[0])
        if scope is None:  # the run is over
            return
        if method == "drain":
            scope.pause.request_drain()
        elif method == "exceeded":
            scope.usage.exceeded = QuotaExceeded("", used=0, limit=0, message=given[1])

    def fact_sent(self, scope: int, fact: Fact) -> None:
        raise TypeError("the server sends no facts")

    def disconnected(self) -> None:
        self.over.set()

    async def _describe(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        agent = await self._agent(spec)
        return {
            "schemas": self._described[spec["name"]],
            "wants_user_id": agent.wants_user_id,
            "key": agent.graph_input.key,
            "form": agent.graph_input.form,
            "wants_more": agent.wants_more,
            "uses_store": uses_store(agent.graph),
        }

    async def _agent(self, spec: Mapping[str, Any]) -> RunnableAgent:
        """The graph of an agent system for one tenant; its factory is called once for each tenant."""
        key = (spec["tenant"], spec["name"], spec["agent"], spec["options"])
        async with self._opening:
            if key not in self._agents:
                self._agents[key] = await self._opened(spec)
            return self._agents[key]

    async def _opened(self, spec: Mapping[str, Any]) -> RunnableAgent:
        tenant = spec["tenant"]
        options = json.loads(spec["options"])
        source = load_reference(spec["origin"])
        types = frozenset(load_all(spec["state_types"], allowed_type))
        entry = GraphEntry(
            spec["name"],
            source,
            spec["origin"],
            input_key=spec["input_key"],
            state_types=types,
            idempotent_tools=frozenset(spec["idempotent_tools"]),
            non_idempotent_nodes=frozenset(spec["non_idempotent_nodes"]),
        )
        store = RemoteStore(self.channel, tenant, spec["name"])
        store.ttl_config = spec["store_ttl"]
        defaults = msgspec.convert(options["defaults"], RunParameters)
        of_run: GraphOfRun | None = None
        saver = RemoteSaver(self.channel, tenant)

        def adopt(made: Graph | Builder) -> tuple[Graph, GraphInput]:
            graph = adopted(made, name=spec["agent"], saver=saver, store=store, types=types)
            check_nodes(entry, graph)
            return graph, find_input(graph, name=entry.name, key=entry.input_key)

        if is_made_for_each_run(entry):
            config = {"configurable": {}, **(defaults.config or {})}
            made = await inspect_graph(entry, cast(RunnableConfig, config), store=store)
            of_run = partial(graph_of_run, entry, store=store, adopt=adopt)
        else:
            made = await open_graph(entry, self._resources, store=store)
        if spec["name"] not in self._described:
            Graphs().log_replaced(spec["name"], made)
            self._described[spec["name"]] = graph_schemas(made, entry.input_key)
        graph, graph_input = adopt(made)
        return RunnableAgent(
            spec["agent"],
            graph,
            graph_input=graph_input,
            options=RunOptions(
                quotas=Quotas.model_validate(options["quotas"]),
                store_prompts=options["store_prompts"],
                images=image_input(entry.name, graph_input.form, takes_images=spec["images"]),
                idempotent_tools=entry.idempotent_tools,
                non_idempotent_nodes=entry.non_idempotent_nodes,
                find_secret=lambda name: name,  # the server has put them in already
                defaults=defaults,
                of_run=of_run,
            ),
        )

    async def _drive(self, number: int, spec: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        agent = await self._agent(spec)
        usage = RemoteUsage(self.channel, number, given["steps_left"])
        scope = self._scopes[number] = _Scope(usage, asyncio.current_task())
        enter_scope(number)
        context = RunContext(
            journal=RemoteJournal(self.channel, number),
            documents=cast(Any, RemoteDocuments(self.channel, number, given["session_id"])),
            usage=cast(Any, usage),
            data=Path(given["data"]),
            timings=Timings(blocked_loop=given["blocked_loop"]),
            system=given["system"],
            server=RemoteCalls(self.channel, number),
        )
        clock = _Clock(given["ahead"])
        try:
            with running_in(context), threads.working(threads.RunWork()):
                turn = replace(turn_of(given), pause=scope.pause)
                await agent.drive(turn, lambda fact: self.channel.send_fact(number, fact), clock)
        finally:
            self._scopes.pop(number, None)

    async def _cancel(self, number: int) -> None:
        """The answer says that the event loop responds; the run may take a while to end."""
        scope = self._scopes.get(number)
        if scope is not None and scope.task is not None:
            scope.task.cancel()

    async def _check(self, spec: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        await (await self._agent(spec)).check(turn_of(given))

    async def _check_given(self, spec: Mapping[str, Any], given: list[Any]) -> None:
        input_, config, context = given
        await (await self._agent(spec)).check_given(RunParameters(input=input_, config=config, context=context))

    async def _settled(self, spec: Mapping[str, Any], session_id: str, checkpoints: list[str]) -> list[str]:
        return sorted(await (await self._agent(spec)).settled(session_id, checkpoints))

    async def _read_state(self, spec: Mapping[str, Any], session_id: str, checkpoint_id: str | None) -> Any:
        found = await graph_state.read_state(await self._agent(spec), session_id, checkpoint_id)
        return None if found is None else packed_state(found)

    async def _history(self, spec: Mapping[str, Any], session_id: str, before: str | None, limit: int) -> list[Any]:
        listed = graph_state.state_history(await self._agent(spec), session_id, before=before, limit=limit)
        # A page lists checkpoints, and shows no values.
        return [packed_state(replace(found, values=None)) async for found in listed]

    async def _prepare_update(
        self, number: int, spec: Mapping[str, Any], session_id: str, epoch: int, update: list[Any]
    ) -> str:
        enter_scope(number)
        agent = await self._agent(spec)
        prepared = await graph_state.prepare_update(agent, session_id, epoch, StateUpdate(*update))
        return prepared.node


class _Clock:
    """The clock of the run, which counts from the server's time: both have the same monotonic clock."""

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead

    def now(self) -> float:
        return self._ahead + self.steady()

    def steady(self) -> float:
        return SystemClock().steady()
