"""AgentFactory: builds a RunnableAgent from its description.

First the tools (registered ones, those of MCP servers, other agents), then the middleware for the
settings, then the graph. Graphs of the operator need no LangChain: it is imported with the first
agent that is described.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import NamedTuple, cast

import msgspec
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver

from stellwerk.agents.build import kinds, models
from stellwerk.agents.build.checklist_tools import CHECKLIST_TOOLS, has_checklist
from stellwerk.agents.build.kinds import BuiltAgent, KindParts, name_of
from stellwerk.agents.build.resources import Resources, effect_of, is_untrusted
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.graphs.input import Graph, GraphInput, find_input
from stellwerk.agents.graphs.registry import (
    Builder,
    FactoryCall,
    GraphEntry,
    Saver,
    adopted,
    check_nodes,
    graph_of_run,
    is_made_for_each_run,
    with_types_of,
)
from stellwerk.agents.graphs.worker_settings import WorkerSettings
from stellwerk.agents.isolated.agent import IsolatedAgent, describe, options_of
from stellwerk.agents.runtime.conversation import GENERAL_PURPOSE, RunParameters
from stellwerk.agents.runtime.images import image_input
from stellwerk.agents.runtime.runnable import MESSAGES, RunnableAgent, RunOptions
from stellwerk.agents.store.graph_store import GraphStore
from stellwerk.agents.tools.call import langchain_tool
from stellwerk.agents.tools.registry import Tools, ToolSpec, discover
from stellwerk.agents.tools.spec import ToolTraits
from stellwerk.errors import BrokenReference, SpecError, UnknownTool, WorkerLost
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.load import LoadedSystem
from stellwerk.spec.messages import Suggestions
from stellwerk.spec.model import AgentAsTool, AgentConfig, CompleteAgent, Effect, GraphConfig, SystemSpec
from stellwerk.spec.resolve import Resolved, admit, resolve
from stellwerk.spec.rules import BY_TOOL, effect_refused
from stellwerk.threads import in_thread


class _Rights(NamedTuple):
    """What an agent may do, as narrowed by the agents above it."""

    effects: frozenset[Effect]
    """Effects of the tools that it may have."""
    asked: frozenset[Effect]
    """Effects of the tools whose calls the user approves once something untrusted was read."""

    def narrowed(self, config: AgentConfig) -> "_Rights":
        effects = self.effects if config.effects is None else self.effects & set(config.effects)
        return _Rights(effects, self.asked | set(config.approvals_after_reading))


_ANYTHING = _Rights(kinds.ALL_EFFECTS, frozenset())


class AgentFactory:
    def __init__(self, resources: Resources | None = None, *, tools: Sequence[ToolSpec] = ()) -> None:
        """``tools`` are your own, in addition to built-in and installed ones."""
        if resources is None:
            all_tools = Tools([*discover().specs(), *tools])
            resources = Resources(tools=all_tools, saver=InMemorySaver())
        self._resources = resources

    async def admitted(self, loaded: LoadedSystem) -> Resolved:
        return admit(loaded, await self._catalogue(loaded))

    async def resolved(self, loaded: LoadedSystem) -> Resolved:
        """The resolved system with its problems, without rejecting it."""
        return resolve(loaded.system, await self._catalogue(loaded))

    async def _catalogue(self, loaded: LoadedSystem) -> Catalogue:
        system = loaded.system
        named = {name for agent in system.agents for name in agent.tools.allow}
        specs = [system.system.default_model, *(agent.model for agent in system.agents if agent.model)]
        scripted_only = all(map(models.is_scripted, specs))
        if not scripted_only:
            await _import_langchain()
        return await self._resources.catalogue(named, scripted_only=scripted_only)

    async def build(self, agent: CompleteAgent, system: SystemSpec | None = None) -> RunnableAgent:
        """Build the agent and everything below it.

        Raises:
            StellwerkError: a tool, graph, model or key is missing.
        """
        defaults = msgspec.convert(agent.defaults.model_dump(exclude_none=True), RunParameters)
        options = RunOptions(find_secret=self._resources.keys.find, defaults=defaults)
        if system is not None:
            options = replace(
                options,
                window=system.coalescing_window,
                quotas=system.quotas,
                store_prompts=system.store_prompts,
            )
        if agent.kind == "graph":
            entry = self._resources.graphs.find(agent.graph or agent.name)
            if entry.worker is not None:
                return await self._isolated(agent, entry, entry.worker, options)
        building = _Building(self._resources)
        if agent.kind == "graph":
            built = await building.outermost_graph(agent)
        else:
            built = await building.built(agent, _ANYTHING, self._resources.saver)
        options = replace(
            options,
            of_run=built.of_run,
            images=built.images,
            idempotent_tools=built.idempotent_tools,
            non_idempotent_nodes=built.non_idempotent_nodes,
        )
        return RunnableAgent(
            agent.name,
            built.graph,
            graph_input=built.graph_input,
            options=options,
            as_tool=partial(self._as_tool, agent),
        )

    async def _isolated(
        self, agent: CompleteAgent, entry: GraphEntry, settings: WorkerSettings, options: RunOptions
    ) -> RunnableAgent:
        """The agent in a worker, which opens its graph."""
        resources = self._resources
        if resources.workers is None or not isinstance(resources.saver, DurableSaver):
            raise SpecError(f"the graph {entry.name!r} has a process of its own, which only a server can start")
        spec = {
            "tenant": resources.saver.tenant,
            "name": entry.name,
            "agent": agent.name,
            "origin": entry.origin,
            "input_key": entry.input_key,
            "images": entry.images,
            "state_types": list(entry.type_references),
            "idempotent_tools": sorted(entry.idempotent_tools),
            "non_idempotent_nodes": sorted(entry.non_idempotent_nodes),
            "store_ttl": getattr(resources.store_of(entry.name), "ttl_config", None),
            "options": options_of(options),
        }
        pool = resources.workers.pool(settings)
        try:
            described = await describe(pool, spec)
        except WorkerLost as error:
            raise BrokenReference(entry.origin, error.message) from error
        resources.describe_graph(entry.name, described.schemas)
        store = resources.store_of(entry.name)
        if described.uses_store and not described.wants_user_id and isinstance(store, GraphStore):
            store.warn_undecided()
        return IsolatedAgent(agent.name, described, pool=pool, spec=spec, saver=resources.saver, options=options)

    def _as_tool(
        self, agent: CompleteAgent, name: str | None, allowed_tools: Sequence[str] | None, mission: str | None
    ) -> BaseTool:
        narrow = agent.narrowed(allowed_tools, mission)
        made: list[BuiltAgent] = []

        async def inner() -> BuiltAgent:
            if not made:
                made.append(await _Building(self._resources).built(narrow, _ANYTHING, None))
            return made[0]

        return kinds.agent_tool(narrow, name=name or agent.name, inner=inner)


async def _import_langchain() -> None:
    """Import LangChain and our middleware for its agents, beside the event loop: it takes a second."""
    try:
        await in_thread(import_module, "stellwerk.agents.middleware.build")
    except ImportError as error:
        remedy = "install the version that stellwerk asks for; graphs of your own do not need it"
        raise SpecError(
            f"an agent that is described needs langchain, which cannot be used: {error}; {remedy}"
        ) from error


class _Building:
    """Builds one agent and its sub-agents; a sub-agent that is used several times is built once."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._known: dict[tuple[object, ...], BuiltAgent] = {}

    async def built(self, agent: CompleteAgent, rights: _Rights, saver: Saver | None) -> BuiltAgent:
        """``saver`` is None for a sub-agent, whose checkpoints go to the saver of its caller."""
        resources = self._resources
        await asyncio.sleep(0)  # large systems take a while
        if agent.kind == "graph":
            return await self._adopted(agent, rights.effects, saver)
        await _import_langchain()
        from stellwerk.agents.build.checklist import checklist_for
        from stellwerk.agents.middleware.build import middleware_for, without_answer_settings

        registered = resources.tools.names()
        agent = _with_resolved_aliases(agent, registered)
        rights = rights.narrowed(agent.config)
        below = [(use, await self._below(use, rights)) for use in agent.agents_as_tools]
        model = models.chat_model(agent.model, providers=resources.providers, keys=resources.keys)
        names = [schema.name for schema in agent.tool_schemas if schema.name not in CHECKLIST_TOOLS]
        tools = [await self._tool(name, agent, rights.effects) for name in names]
        aliases = {alias: name for alias, name in registered.items() if alias != name and name in names}
        known = _known(tools, below)
        untrusted = any(each.untrusted for each in known.values())
        types = frozenset(each for _, built in below for each in built.state_types)
        repeatable = frozenset(each for _, built in below for each in built.idempotent_tools)
        config = agent.config.model_copy(update={"approvals_after_reading": sorted(rights.asked)})
        layers = middleware_for(config, agent=agent.name, judge=model, aliases=aliases, known=known)
        if has_checklist(agent):
            layers.append(checklist_for(agent))
        limits = without_answer_settings(config)
        parts = KindParts(
            model=model,
            tools=tools,
            middleware=layers,
            guards=middleware_for(limits, agent=agent.name, judge=model, aliases=aliases, known=known),
            below=below,
            effects=rights.effects,
            asked=rights.asked,
            keep=resources.keep,
            saver=with_types_of([built.graph for _, built in below], saver, types),
            store=resources.store_above(built.graph for _, built in below),
        )
        graph = kinds.agent_kind(agent.kind)(agent, parts)
        images = models.image_input(agent.model, model)
        untrusted = untrusted or agent.kind == "workplan"
        return BuiltAgent(graph, MESSAGES, untrusted, images, types, repeatable)

    async def _below(self, use: AgentAsTool, rights: _Rights) -> BuiltAgent:
        terms = None if use.allowed_tools is None else tuple(use.allowed_tools)
        key = (id(use.agent), terms, use.mission_override, rights)
        if key not in self._known:
            narrow = use.agent.narrowed(use.allowed_tools, use.mission_override)
            built = await self.built(narrow, rights, None)
            if built.graph_input.form == "none":
                wanted = built.graph_input.wanted
                why = f"{use.agent.name!r} is a graph without a place for a text, so no agent can call it"
                raise SpecError(f"{why}; its input is: {wanted}")
            self._known[key] = built
        return self._known[key]

    async def _adopted(self, agent: CompleteAgent, effects: frozenset[Effect], saver: Saver | None) -> BuiltAgent:
        if "external" not in effects:  # the contents of a graph are unknown
            raise SpecError(effect_refused(f"{agent.name!r} is a graph", "external", effects))
        entry = self._resources.graphs.find(agent.graph or agent.name)
        if entry.worker is not None:
            why = f"the graph {entry.name!r} has a process of its own, so it cannot be a sub-agent"
            raise SpecError(f"{why}; serve it without --isolate, or take it out of `isolate` in the operator's file")
        return self._own_graph(agent, entry, await self._resources.opened(entry), saver)

    async def outermost_graph(self, agent: CompleteAgent) -> BuiltAgent:
        """The operator's graph that gets the user's messages."""
        resources = self._resources
        entry = resources.graphs.find(agent.graph or agent.name)
        if not is_made_for_each_run(entry):
            return self._own_graph(agent, entry, await resources.opened(entry), resources.saver)
        config = agent.defaults.config or GraphConfig()
        given = {"configurable": {}, **config.model_dump(exclude_none=True)}
        seen = await resources.inspected(entry, cast(RunnableConfig, given))
        built = self._own_graph(agent, entry, seen, resources.saver)
        return replace(built, of_run=partial(self._graph_of_run, agent, entry))

    def _graph_of_run(
        self, agent: CompleteAgent, entry: GraphEntry, call: FactoryCall
    ) -> AbstractAsyncContextManager[tuple[Graph, GraphInput]]:
        def adopt(made: Graph | Builder) -> tuple[Graph, GraphInput]:
            built = self._own_graph(agent, entry, made, self._resources.saver)
            return built.graph, built.graph_input

        return graph_of_run(entry, call, store=self._resources.store_of(entry.name), adopt=adopt)

    def _own_graph(
        self, agent: CompleteAgent, entry: GraphEntry, made: Graph | Builder, saver: Saver | None
    ) -> BuiltAgent:
        store = self._resources.store_of(entry.name)
        graph = adopted(made, name=agent.name, saver=saver, store=store, types=entry.state_types)
        graph_input = find_input(graph, name=entry.name, key=entry.input_key)
        images = image_input(entry.name, graph_input.form, takes_images=entry.images)
        check_nodes(entry, graph)
        once = entry.non_idempotent_nodes
        return BuiltAgent(graph, graph_input, True, images, entry.state_types, entry.idempotent_tools, once)

    async def _tool(self, name: str, agent: CompleteAgent, effects: frozenset[Effect]) -> BaseTool:
        resources = self._resources
        server = resources.mcp.server_of(name)
        if server is not None and name not in resources.tools.names():
            listed = await resources.mcp.tools(server, keep=resources.keep)
            offered = {tool.name: tool for tool in listed}
            if name not in offered:
                raise UnknownTool(name, known=offered)
            tool = offered[name]
        else:
            tool = langchain_tool(resources.tools.find(name), keep=resources.keep)
        effect = effect_of(tool)
        if effect not in effects:
            what = f"{agent.name!r} has the tool {name!r}"
            raise SpecError(effect_refused(what, effect, effects))
        return tool


def _with_resolved_aliases(agent: CompleteAgent, names: Mapping[str, str]) -> CompleteAgent:
    """The agent with resolved aliases in its rules; a rule for an unknown tool is an error."""
    own = {schema.name for schema in agent.tool_schemas}
    own |= {name_of(use) for use in agent.agents_as_tools}
    mine = {names.get(name, name) for name in own} | own
    changes = {}
    for setting in BY_TOOL:
        rules: dict[str, object] = getattr(agent.config, setting)
        named = {name if name in own else names.get(name, name): rule for name, rule in rules.items()}
        for name in sorted(named.keys() - mine - (set(rules) if agent.kind == "deep" else set())):
            hint = Suggestions().did_you_mean(name, mine)
            problem = f"names {name!r}, which is no tool of it; {hint}"
            raise SpecError(f"{setting} of agent {agent.name!r} {problem}")
        changes[setting] = named
    return agent.model_copy(update={"config": agent.config.model_copy(update=changes)})


def _known(tools: Sequence[BaseTool], below: Sequence[tuple[AgentAsTool, BuiltAgent]]) -> dict[str, ToolTraits]:
    """The traits of tools and sub-agents, by name; a graph of the operator may do anything."""
    known = {tool.name: ToolTraits(effect_of(tool), is_untrusted(tool)) for tool in tools}
    known[GENERAL_PURPOSE] = ToolTraits(None, any(each.untrusted for each in known.values()))
    for use, built in below:
        name = name_of(use)
        if any(tool.name == name for tool in tools):
            remedy = "give the sub-agent another one"
            raise SpecError(f"{name!r} is the name of a tool and of a sub-agent; {remedy}")
        effect = "external" if use.agent.kind == "graph" else None
        known[name] = ToolTraits(effect, built.untrusted)
    return known
