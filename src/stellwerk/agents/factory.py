"""AgentFactory: a description becomes a RunnableAgent.

Tools first (registered ones, those of MCP servers, other agents), then the
middleware that the settings ask for, then the graph.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple, get_args

from langchain.agents import create_agent
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

from stellwerk.agents.checklist import CHECKLIST_TOOLS, checklist_for
from stellwerk.agents.deep import DeepParts, SubAgentGraph, build_deep
from stellwerk.agents.document_tools import save_document
from stellwerk.agents.graph_input import Graph, find_intake
from stellwerk.agents.graph_types import AllowedType, state_types
from stellwerk.agents.graphs import adopted
from stellwerk.agents.images import ImageInput, image_input
from stellwerk.agents.middleware.assembly import guards_for, middleware_for
from stellwerk.agents.middleware.conversation import HELPER
from stellwerk.agents.middleware.prompt import prompt_of
from stellwerk.agents.middleware.reading import Conduct
from stellwerk.agents.middleware.retry import Patience
from stellwerk.agents.models import chat_model
from stellwerk.agents.pool import Pool, effect_of, is_untrusted
from stellwerk.agents.runnable import MESSAGES, Habits, RunnableAgent
from stellwerk.agents.state import CustomStateShared
from stellwerk.agents.subagent import Built, agent_tool
from stellwerk.agents.tool_calls import langchain_tool
from stellwerk.agents.tools import Tools, ToolSpec, discover
from stellwerk.agents.workplan import WorkplanParts, build_workplan
from stellwerk.agents.workplan_summaries import ModelSummaries
from stellwerk.agents.workplan_tasks import task_tool
from stellwerk.errors import SpecError, UnknownTool
from stellwerk.spec.load import Loaded
from stellwerk.spec.model import AgentAsTool, AgentConfig, CompleteAgent, Effect, SystemSpec
from stellwerk.spec.resolve import Resolved, admit, resolve
from stellwerk.spec.rules_effects import cannot_ask

_NO_IMAGES = (
    "the graph {name!r} is not said to take images; if its models do, name it under graph_images in the operator's file"
)
_BY_TOOL = ("tool_call_limits", "tool_timeouts", "approvals")


class _Rights(NamedTuple):
    """What those above leave to an agent."""

    effects: frozenset[Effect]
    """Of the tools that it may have."""
    asked: frozenset[Effect]
    """Of the tools about whose calls the user is asked, once something untrusted was read."""

    def narrowed(self, config: AgentConfig) -> "_Rights":
        effects = self.effects if config.effects is None else self.effects & set(config.effects)
        return _Rights(effects, self.asked | set(config.approvals_after_reading))


_ANYTHING = _Rights(frozenset(get_args(Effect)), frozenset())


class AgentFactory:
    def __init__(self, pool: Pool | None = None, *, tools: Sequence[ToolSpec] = ()) -> None:
        """``tools`` are some of your own, beside those that are ready-made or installed."""
        self._pool = pool or Pool(tools=Tools([*discover().specs(), *tools]), saver=InMemorySaver())

    async def admitted(self, loaded: Loaded) -> Resolved:
        """The system with everything it names found.

        Raises:
            SpecError: it names what is not here, or contradicts itself; says everything that is wrong.
        """
        return admit(loaded, await self._pool.catalogue(_named(loaded)))

    async def resolved(self, loaded: Loaded) -> Resolved:
        """The same for whoever only looks: with everything that does not fit, and without refusing it."""
        return resolve(loaded.system, await self._pool.catalogue(_named(loaded)), loaded.gaps)

    async def build(self, agent: CompleteAgent, system: SystemSpec | None = None) -> RunnableAgent:
        """Build the agent and everything below it.

        Raises:
            StellwerkError: a tool, graph, model or key is missing; says which, and what to do.
        """
        built = await _Building(self._pool).built(agent, _ANYTHING, self._pool.saver)
        habits = Habits(images=built.images)
        if system is not None:
            habits = Habits(system.coalescing_window, system.quotas, system.store_prompts, built.images)
        as_tool = partial(self._as_tool, agent)
        return RunnableAgent(agent.name, built.graph, intake=built.intake, habits=habits, as_tool=as_tool)

    def _as_tool(
        self, agent: CompleteAgent, name: str | None, allowed_tools: Sequence[str] | None, mission: str | None
    ) -> BaseTool:
        narrow = agent.narrowed(allowed_tools, mission)
        made: list[Built] = []

        async def inner() -> Built:
            if not made:
                made.append(await _Building(self._pool).built(narrow, _ANYTHING, None))
            return made[0]

        return agent_tool(narrow, name=name or agent.name, inner=inner)


def _named(loaded: Loaded) -> set[str]:
    return {name for agent in loaded.system.agents for name in agent.tools.allow}


class _Building:
    """One agent being built, with everything below it; what is used several times is built once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[tuple[object, ...], Built] = {}

    async def built(self, agent: CompleteAgent, rights: _Rights, saver: BaseCheckpointSaver[Any] | None) -> Built:
        """``saver`` is None for an agent below another one: it stores with the one around it."""
        await asyncio.sleep(0)  # a large family takes a while, and others want to run
        if agent.kind == "graph":
            return await self._adopted(agent, rights.effects, saver)
        agent = _with_true_names(agent, self._pool.tools.names())
        rights = rights.narrowed(agent.config)
        below = [(use, await self._below(use, rights)) for use in agent.agents_as_tools]
        model = chat_model(agent.model, providers=self._pool.providers, keys=self._pool.keys)
        names = [schema.name for schema in agent.tool_schemas if schema.name not in CHECKLIST_TOOLS]
        tools = [await self._tool(name, agent, rights.effects) for name in names]
        aliases, known = self._aliases(agent), _known(tools, below)
        untrusted = any(each.untrusted for each in known.values())
        config = agent.config.model_copy(update={"approvals_after_reading": sorted(rights.asked)})
        layers = middleware_for(config, agent=agent.name, judge=model, aliases=aliases, known=known)
        if _has_checklist(agent):
            layers.append(checklist_for(agent))
        images = image_input(agent.model, model)
        if saver is not None:
            saver = saver.with_allowlist(_types(built for _, built in below))
        if agent.kind == "workplan":
            planner = create_agent(model, [], middleware=layers, name=agent.name)
            summaries: ModelSummaries | None = None
            if agent.config.document_summaries == "model":
                summaries = ModelSummaries(agent.name, model, Patience(agent.config.model_retries))
            parts = self._workplan(planner, summaries, below, rights)
            workplan = build_workplan(agent, parts, saver=saver, store=self._pool.store)
            return Built(workplan, MESSAGES, untrusted=True, images=images)
        if agent.kind == "deep":
            graphs = [SubAgentGraph(_name(use), use.agent.description, built.graph) for use, built in below]
            guards = guards_for(config, agent=agent.name, judge=model, aliases=aliases, known=known)
            deep = DeepParts(model, tools, graphs, middleware=layers, guards=guards)
            return Built(build_deep(agent, deep, saver=saver, store=self._pool.store), MESSAGES, untrusted, images)
        tools += [_offered(agent, use, built) for use, built in below]
        graph = create_agent(
            model,
            tools,
            system_prompt=prompt_of(agent.config) or None,
            middleware=layers,
            state_schema=CustomStateShared,
            checkpointer=saver,
            store=self._pool.store,
            name=agent.name,
        )
        return Built(graph, MESSAGES, untrusted, images)

    def _workplan(
        self,
        planner: Graph,
        summaries: ModelSummaries | None,
        below: Sequence[tuple[AgentAsTool, Built]],
        rights: _Rights,
    ) -> WorkplanParts:
        for use, _ in below:
            if use.agent.kind == "graph" and "external" in rights.asked:
                raise SpecError(cannot_ask(str(planner.name), _name(use)))
        save: BaseTool | None = None
        if save_document.effects in rights.effects:
            save = langchain_tool(save_document, keep=self._pool.keep)
        tasks = {_name(use): task_tool(use.agent, built, name=_name(use), save=save) for use, built in below}
        untrusted = {_name(use) for use, built in below if built.untrusted}
        descriptions = {_name(use): use.agent.description for use, _ in below}
        return WorkplanParts(planner, tasks, descriptions, summaries, untrusted)

    async def _below(self, use: AgentAsTool, rights: _Rights) -> Built:
        terms = None if use.allowed_tools is None else tuple(use.allowed_tools)
        key = (id(use.agent), terms, use.mission_override, rights)
        if key not in self._known:
            narrow = use.agent.narrowed(use.allowed_tools, use.mission_override)
            self._known[key] = await self.built(narrow, rights, None)
        return self._known[key]

    async def _adopted(
        self, agent: CompleteAgent, effects: frozenset[Effect], saver: BaseCheckpointSaver[Any] | None
    ) -> Built:
        if "external" not in effects:  # what is in a graph, nobody here knows
            raise SpecError(
                f"agent {agent.name!r} is a graph of its own, which may do anything, but an agent that uses it "
                f"may only have: {', '.join(sorted(effects)) or 'none'}; take it away, or add the effect external"
            )
        entry = self._pool.graphs.find(agent.graph or agent.name)
        opened = await self._pool.opened(entry)
        graph = adopted(opened, name=agent.name, saver=saver, store=self._pool.store)
        intake = find_intake(graph, name=entry.name, key=entry.input_key)
        images = ImageInput("none", _NO_IMAGES.format(name=entry.name))
        if intake.form != "messages":
            images = ImageInput("none", f"the graph {entry.name!r} takes text only")
        elif entry.images:
            images = ImageInput("content")
        return Built(graph, intake, untrusted=True, images=images)

    async def _tool(self, name: str, agent: CompleteAgent, effects: frozenset[Effect]) -> BaseTool:
        server = self._pool.mcp.server_of(name)
        if server is not None and name not in self._pool.tools.names():
            offered = {tool.name: tool for tool in await self._pool.mcp.tools(server, keep=self._pool.keep)}
            if name not in offered:
                raise UnknownTool(name, known=offered)
            tool = offered[name]
        else:
            tool = langchain_tool(self._pool.tools.find(name), keep=self._pool.keep)
        effect = effect_of(tool)
        if effect not in effects:
            raise SpecError(
                f"agent {agent.name!r} has the tool {name!r} of effect {effect!r}, but it, or an agent that uses it, "
                f"may only have: {', '.join(sorted(effects)) or 'none'}; take the tool away, or add the effect"
            )
        return tool

    def _aliases(self, agent: CompleteAgent) -> dict[str, str]:
        names = {schema.name for schema in agent.tool_schemas}
        return {alias: name for alias, name in self._pool.tools.names().items() if alias != name and name in names}


def _with_true_names(agent: CompleteAgent, names: Mapping[str, str]) -> CompleteAgent:
    """The same agent, whose rules name tools as they are called and not by an alias; a rule for nothing is refused."""
    own = {schema.name for schema in agent.tool_schemas} | {_name(use) for use in agent.agents_as_tools}
    mine = {names.get(name, name) for name in own} | own
    changes = {}
    for setting in _BY_TOOL:
        rules: dict[str, object] = getattr(agent.config, setting)
        named = {name if name in own else names.get(name, name): rule for name, rule in rules.items()}
        for name in sorted(named.keys() - mine - (set(rules) if agent.kind == "deep" else set())):
            near = get_close_matches(name, mine, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(sorted(mine)) or 'none'}"
            raise SpecError(f"{setting} of agent {agent.name!r} names {name!r}, which is no tool of it; {hint}")
        changes[setting] = named
    return agent.model_copy(update={"config": agent.config.model_copy(update=changes)})


def _offered(agent: CompleteAgent, use: AgentAsTool, built: Built) -> BaseTool:
    async def inner() -> Built:
        return built

    shared = _has_checklist(agent) and _has_checklist(use.agent)
    return agent_tool(use.agent, name=_name(use), inner=inner, shares_checklist=shared)


def _known(tools: Sequence[BaseTool], below: Sequence[tuple[AgentAsTool, Built]]) -> dict[str, Conduct]:
    """How tools and sub-agents behave, by their names; a graph may do anything."""
    known = {tool.name: Conduct(effect_of(tool), is_untrusted(tool)) for tool in tools}
    known[HELPER] = Conduct(None, any(each.untrusted for each in known.values()))
    for use, built in below:
        if any(tool.name == _name(use) for tool in tools):
            raise SpecError(f"{_name(use)!r} is the name of a tool and of a sub-agent; give the sub-agent another one")
        known[_name(use)] = Conduct("external" if use.agent.kind == "graph" else None, built.untrusted)
    return known


def _name(use: AgentAsTool) -> str:
    return use.name or use.agent.name


def _has_checklist(agent: CompleteAgent) -> bool:
    """Its own tools need one, or those of an agent below it, to whom it hands the list on."""
    own = any(schema.name in CHECKLIST_TOOLS for schema in agent.tool_schemas)
    return agent.kind != "graph" and (own or any(_has_checklist(use.agent) for use in agent.agents_as_tools))


def _types(below: Iterable[Built]) -> set[AllowedType]:
    return {found for built in below for found in state_types(built.graph)}
