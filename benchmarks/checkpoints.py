"""What checkpoints cost: runs per second, bytes per conversation, milliseconds to read one back.

Ratios count, absolute figures depend on the machine: no checkpointer, LangGraph's
in memory and ours take turns in one process, on the same agent.
"""

import asyncio
import operator
import random
import string
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypedDict

from stellwerk.agents.checkpoints.saver import EPOCH, DurableSaver

# isort: split
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from stellwerk.database.port import Transaction
from stellwerk.database.sqlite import Sqlite

TENANT = "local"
RUNS, AT_ONCE, REPEATS = 200, 20, 5
TURNS = (10, 100)
LENGTH = 540
BUDGETS = {
    "runs_per_second_durable": (">=", 250.0),
    "bytes_agent_100_turns": ("<=", 3_000_000),
    "bytes_graph_100_turns": ("<=", 3_000_000),
    "read_ms_agent_100_turns": ("<=", 15.0),
    "read_ms_graph_100_turns": ("<=", 15.0),
}

_random = random.Random(540)


def _text() -> str:
    return "".join(_random.choices(string.ascii_lowercase + " ", k=LENGTH))


class _Model(BaseChatModel):
    """Calls a tool, then answers; costs next to nothing."""

    @property
    def _llm_type(self) -> str:
        return "benchmark"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if isinstance(messages[-1], ToolMessage):
            answer = AIMessage(_text())
        else:
            answer = AIMessage("", tool_calls=[{"name": "look", "args": {"at": "it"}, "id": f"call_{len(messages)}"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages)


@tool
async def look(at: str) -> str:
    """Look at something."""
    return _text()


class _Notes(TypedDict):
    entries: Annotated[list[dict[str, str]], operator.add]
    about: dict[str, str]


def _entry(state: _Notes) -> dict[str, list[dict[str, str]]]:
    return {"entries": [{"role": "assistant", "content": _text()}]}


def _agent(saver: BaseCheckpointSaver[Any] | None) -> Any:
    return create_agent(_Model(), [look], checkpointer=saver)


def _graph(saver: BaseCheckpointSaver[Any] | None) -> Any:
    """Hand-written, with plain dictionaries in a list that grows by ``operator.add``."""
    builder = StateGraph(_Notes)
    builder.add_sequence([("first", _entry), ("second", _entry), ("third", _entry)])
    builder.add_edge(START, "first")
    builder.add_edge("third", END)
    return builder.compile(checkpointer=saver)


def _agent_input() -> dict[str, object]:
    return {"messages": [HumanMessage("What is there to see?")]}


def _graph_input() -> dict[str, object]:
    return {"entries": [{"role": "user", "content": "What is there to see?"}], "about": {"text": "x" * 3000}}


def _open_sessions(tx: Transaction, batches: Sequence[Sequence[str]]) -> list[None]:
    for ids in batches:
        tx.run_many("create_session", [(id_, TENANT, "benchmark", None, 1, 0, 0.0) for id_ in ids])
    return [None] * len(batches)


@asynccontextmanager
async def _database() -> AsyncIterator[tuple[Sqlite, Path]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "benchmark.db"
        database = Sqlite(path)
        await database.open()
        try:
            yield database, path
        finally:
            await database.close()


async def _pace(graph: Any, name: str, **options: Any) -> tuple[float, float]:
    """(runs per second, milliseconds of CPU per run): the second suffers less from busy neighbours."""
    waiting = [f"{name}-{n}" for n in range(RUNS)]

    async def work() -> None:
        while waiting:
            config = {"configurable": {"thread_id": waiting.pop(), EPOCH: 0}}
            await graph.ainvoke(_agent_input(), config, **options)

    start, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return RUNS / (time.perf_counter() - start), (time.process_time() - cpu) * 1000 / RUNS


async def _throughput() -> dict[str, float]:
    """Runs of one tool call each, 20 at a time; each step waits for its commit, and each write for the fence."""
    paces: dict[str, list[tuple[float, float]]] = {"none": [], "memory": [], "durable": []}
    async with _database() as (database, _):
        saver = DurableSaver(database, tenant=TENANT)
        for repeat in range(REPEATS):
            name = f"durable-{repeat}"
            await database.submit(_open_sessions, [f"{name}-{n}" for n in range(RUNS)])
            paces["none"].append(await _pace(_agent(None), "none"))
            paces["memory"].append(await _pace(_agent(InMemorySaver()), "memory", durability="sync"))
            paces["durable"].append(await _pace(_agent(saver), name, durability="sync"))
    figures = {f"runs_per_second_{kind}": max(rate for rate, _ in found) for kind, found in paces.items()}
    figures |= {f"cpu_ms_per_run_{kind}": min(cpu for _, cpu in found) for kind, found in paces.items()}
    for other in ("none", "memory"):
        figures[f"durable_to_{other}"] = figures["runs_per_second_durable"] / figures[f"runs_per_second_{other}"]
    return figures


async def _growth(kind: str, build: Callable[[Any], Any], question: Callable[[], object]) -> dict[str, float]:
    figures: dict[str, float] = {}
    config: RunnableConfig = {"configurable": {"thread_id": "0123456789ABCDEFGHIJKL"}}
    async with _database() as (database, path):
        saver = DurableSaver(database, tenant=TENANT)
        graph = build(saver)
        for turn in range(1, max(TURNS) + 1):
            await graph.ainvoke(question(), config, durability="sync")
            if turn in TURNS:
                await database.truncate()
                figures[f"bytes_{kind}_{turn}_turns"] = path.stat().st_size
        times = []
        for _ in range(20):
            start = time.perf_counter()
            await saver.aget_tuple(config)
            times.append((time.perf_counter() - start) * 1000)
        figures[f"read_ms_{kind}_{max(TURNS)}_turns"] = median(times)
    return figures


async def measure() -> dict[str, object]:
    """The figures by name, and the budgets among them."""
    figures = await _throughput()
    figures |= await _growth("agent", _agent, _agent_input)
    figures |= await _growth("graph", _graph, _graph_input)
    return {"figures": figures, "budgets": BUDGETS, "kept": {name: _kept(name, figures[name]) for name in BUDGETS}}


def _kept(name: str, figure: float) -> bool:
    sign, limit = BUDGETS[name]
    return figure >= limit if sign == ">=" else figure <= limit


def main() -> None:
    measured: Any = asyncio.run(measure())
    for name, figure in measured["figures"].items():
        sign, limit = BUDGETS.get(name, ("", ""))
        verdict = {True: "kept", False: "BROKEN"}[measured["kept"][name]] if name in BUDGETS else ""
        print(f"{name:28} {figure:14,.2f}   {sign:2} {limit!s:>10} {verdict}")


if __name__ == "__main__":
    main()
