"""Opening: what `stellwerk run` is pointed at becomes an agent that is ready to run."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stellwerk.agents import graphs, tools
from stellwerk.agents.factory import AgentFactory
from stellwerk.agents.mcp import McpServers
from stellwerk.agents.memory import memory_saver
from stellwerk.agents.operator_file import redactors_of
from stellwerk.agents.pool import Pool
from stellwerk.agents.runnable import RunnableAgent
from stellwerk.agents.targets import content_of, graphs_of, is_project, system_of
from stellwerk.agents.tracing import trace_in_place, tracing
from stellwerk.demo import demo_yaml
from stellwerk.errors import SettingsError
from stellwerk.spec.load import read_system
from stellwerk.spec.operator import Operator

_FORMS = "give a system.yaml, a file.py:graph, a langgraph.json, or demo"
_DEMO = "demo"


@dataclass(frozen=True, slots=True)
class Target:
    source: str
    text: str | bytes
    """The agent system."""
    graphs: Mapping[str, str] = field(default_factory=dict)
    """The one graph that it consists of, if it was made for one."""


def find(target: str) -> Target:
    """
    Raises:
        SettingsError: there is no such thing, or it has several graphs.
    """
    place, colon, name = target.rpartition(":")
    if not (name and (place or not colon)):
        raise SettingsError(f"{target!r} is nothing that can be run; {_FORMS}")
    if colon and place.endswith(".json"):
        return _graph(place, name)
    if place.endswith((".yaml", ".yml")):
        raise SettingsError(f"{place} is an agent system and runs as a whole; leave out :{name}")
    if colon and not Path(target).exists():
        return _graph(target, None)
    if target == _DEMO and not Path(target).exists():
        return Target("demo.yaml", demo_yaml())
    if target.endswith(".py"):
        raise SettingsError(f"{target} is a file; name the graph in it, such as {target}:graph")
    text = content_of(target, forms=_FORMS)
    return _graph(target, None) if is_project(target) else Target(target, text)


@asynccontextmanager
async def opened(target: Target, operator: Operator, warn: Callable[[str], None]) -> AsyncIterator[RunnableAgent]:
    """The agent; all that was started for it ends with the block.

    Raises:
        StellwerkError: it cannot be built; says what is missing, and what to do.
    """
    trace_in_place()
    async with AsyncExitStack() as resources:
        await resources.enter_async_context(tracing(redactors_of(operator)))
        mcp = McpServers(operator.mcp_servers)
        resources.push_async_callback(mcp.close)
        own = target.graphs or operator.graphs
        inputs = {name: key for name, key in operator.graph_inputs.items() if name in own}
        pool = Pool(
            tools=tools.discover(operator.tools),
            graphs=graphs.discover(own, inputs=inputs),
            mcp=mcp,
            providers=operator.providers,
            saver=memory_saver(),
            resources=resources,
        )
        factory = AgentFactory(pool)
        loaded = read_system(target.text, source=target.source)
        resolved = await factory.admitted(loaded)
        agent = await factory.build(resolved.root, loaded.system.system)
        for problem in loaded.placed(resolved.warnings):
            warn(problem.sentence(target.source))
        yield agent


def _graph(place: str, name: str | None) -> Target:
    found = graphs_of([place])
    if name is None and len(found) > 1:
        raise SettingsError(f"{place} has several graphs; choose one: {', '.join(f'{place}:{one}' for one in found)}")
    chosen = name or next(iter(found))
    if chosen not in found:
        raise SettingsError(f"{place} has no graph {chosen!r}; it has: {', '.join(found)}")
    return Target(found[chosen], system_of(chosen), {chosen: found[chosen]})
