"""Limit A: the same agent in a bare process. No HTTP, nothing stored, no reader: the cost of LangGraph itself.

``python -m benchmarks.limit TOKENS PACE RUNS [seldom]`` does RUNS at once for every line it reads, and answers each
line with the CPU seconds and the wall seconds that it took. With ``seldom`` Python's collector of garbage is set as
our server sets it; without, it takes a third of the time of 200 runs at once.
"""

import asyncio
import json
import sys
import time
from typing import Any

import uvloop

from benchmarks.workload import system_text
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.tools.builtin import get_weather
from stellwerk.agents.tools.call import langchain_tool
from stellwerk.spec.load import load_system
from stellwerk.threads import collect_seldom

# isort: split
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage


def _graph(tokens: int, pace: float) -> Any:
    """The same model and tool in LangChain's own agent: without our middleware and without a checkpointer."""
    system = load_system(system_text("limit", tokens=tokens, pace=pace), source="benchmark").system
    described = system.agents[0].model or system.system.default_model
    model = ScriptedModel(script=described.script, model=described.model, pace=described.pace)
    return create_agent(model, [langchain_tool(get_weather)], system_prompt="You are measured.", name="assistant")


async def _run(graph: Any) -> float:
    start = time.perf_counter()
    modes = ["messages", "updates", "custom"]
    async for _ in graph.astream({"messages": [HumanMessage("go")]}, stream_mode=modes):
        pass
    return time.perf_counter() - start


async def _runs(graph: Any, count: int) -> dict[str, float]:
    cpu = time.process_time()
    times = await asyncio.gather(*(_run(graph) for _ in range(count)))
    return {"cpu": time.process_time() - cpu, "wall": sum(times) / count}


def main(tokens: int, pace: float, count: int, *, seldom: bool) -> None:
    graph = _graph(tokens, pace)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if seldom:
            collect_seldom(runner.get_loop())
        for _ in sys.stdin:
            print(json.dumps(runner.run(_runs(graph, count))), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), seldom=sys.argv[4:] == ["seldom"])
