"""Data model of agent systems: agents, their models, their tools. Nothing here can run.

``AgentSystem`` is one YAML document, in which agents name each other by id.
``CompleteAgent`` is one agent with everything it needs, sub-agents included;
the factory builds from it.
"""

import re
from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from stellwerk.errors import SpecError
from stellwerk.spec.script import Closed, Name, ScriptRule

_RESERVED = re.compile(r"documents|lock|tenants|(?:stellwerk|store|master)\..*")
"""Files and folders of the server itself in the data folder."""
_RELATIVE_FOLDER = re.compile(r"(?:\./)?\w[\w.-]*(?:/\w[\w.-]*)*/?")


def relative_folder(name: str) -> str:
    """The normalised name. Each part begins with a letter, digit or _: it cannot leave the folder."""
    if not _RELATIVE_FOLDER.fullmatch(name):
        raise ValueError(
            f"{name!a} is not a folder below the data folder; write a relative name such as "
            "'checklists': letters, digits, _, - and dots, parts divided by /"
        )
    plain = name.removeprefix("./").rstrip("/")
    if _RESERVED.fullmatch(plain.partition("/")[0]):
        remedy = "take another name, such as 'checklists'"
        raise ValueError(f"{name!a} is used by the server itself; {remedy}")
    return plain


Prompt = Annotated[str, Field(max_length=64 * 1024)]
Seconds = Annotated[float, Field(gt=0, le=24 * 3600)]
Count = Annotated[int, Field(ge=1, le=10_000)]
Key = Annotated[str, Field(min_length=1, max_length=100)]
Note = Annotated[str, Field(max_length=1000)] | int | float | bool | None
Effect = Literal["read", "write", "external"]
Acting = Literal["write", "external"]
Kind = Literal["react", "deep", "workplan", "graph"]
Decision = Literal["approve", "edit", "reject", "respond"]
DECISIONS: tuple[Decision, ...] = ("approve", "edit", "reject", "respond")


class ModelSpec(Closed):
    """The model of an agent."""

    provider: Name = "scripted"
    """A provider that LangChain knows (openai, anthropic …), one that the operator named, or ``scripted``."""
    model: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\s${}]+$")] = "scripted"
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    max_tokens: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    timeout: Seconds | None = None
    """Seconds that one request to the provider may take."""
    tool_calling: Literal["native", "schema"] = "native"
    """``schema`` for a model without functions: schemas go into the prompt, the call is read from its text."""
    images: bool | None = None
    """Whether it takes images. If absent, LangChain's profile of the model decides; an unknown model takes none."""
    pace: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Seconds between two tokens of the scripted model."""
    script: list[ScriptRule] = []
    """The script of the scripted model."""


class AgentConfig(Closed):
    """How an agent behaves. The factory turns every setting into middleware."""

    system_prompt: Prompt = ""
    mission: Prompt = ""
    """The goal of the agent; follows the system prompt, and an agent that uses it as a tool may override it."""
    max_steps: Count = 50
    """Model calls for one input."""
    only_one_model_call: bool = False
    """Run the tools that the first model call asks for, then end."""
    tool_call_limit: Count | None = None
    """Calls of all tools together for one input; further calls are refused."""
    tool_call_limits: dict[Name, Count] = {}
    """The same for single tools."""
    tool_timeout: Seconds | None = None
    """Seconds that a tool may take; the tool's own timeout counts if it is shorter."""
    tool_timeouts: dict[Name, Seconds] = {}
    model_retries: Annotated[int, Field(ge=0, le=10)] = 3
    """How often a failed model call is tried again, as long as it has not produced a token."""
    validation_prompt: Prompt | None = None
    """How an answer is judged: the model must reply OK, or name the fault. Until then the answer is not shown."""
    validation_rounds: Annotated[int, Field(ge=1, le=10)] = 2
    """How often a refused answer is written again; the last one is taken as it is."""
    final_prompt: Prompt | None = None
    """Takes the place of the system prompt for the final answer, which is then given without tools."""
    final_prompt_after: Count = 1
    """Tool results after which the final answer is asked for."""
    approvals: dict[Name, list[Decision]] = {}
    """Tools that the user must approve, each with the decisions that are open to them."""
    approvals_after_reading: list[Acting] = []
    """Effects of tools that the user must approve once the agent, or one that uses it, has read untrusted content."""
    effects: list[Effect] | None = None
    """What its tools may do to the world, those of its sub-agents included; everything if absent."""
    document_summaries: Literal["static", "model"] = "static"
    """For kind ``workplan``: ``model`` asks its model to sum up each document that comes with a message, once."""
    completion_signal: Name | None = None
    """A tool call of this name brackets the agent's result when it is used as a tool."""


class GraphConfig(Closed):
    """The config of a graph's runs, as LangGraph has it."""

    configurable: dict[str, Any] | None = None
    """read by the graph; the server's own keys are refused"""
    recursion_limit: Annotated[int | None, Field(ge=1, le=10_000)] = None
    """steps of the graph, at most"""
    tags: Annotated[list[Annotated[str, Field(max_length=200)]] | None, Field(max_length=50)] = None
    metadata: dict[str, Any] | None = None
    run_name: Annotated[str | None, Field(min_length=1, max_length=200)] = None


class RunDefaults(Closed):
    """What a graph gets in each run, where neither the message nor its session says otherwise."""

    input: dict[str, Any] | None = None
    """For kind ``graph``: keys of its input, given where neither the message nor the state has them."""
    config: GraphConfig | None = None
    """For kind ``graph``: the config of its runs. ``${secret:name}`` in a text is the stored secret of that name."""
    context: dict[str, Any] | None = None
    """For kind ``graph``: its context, by its ``context_schema``; may refer to secrets, too."""


class ToolSchema(Closed):
    """A tool by its name, registered here or offered by an MCP server."""

    name: Name


class SubAgentUse(Closed):
    """How one agent uses another; both only narrow."""

    allowed_tools: list[Name] | None = None
    mission_override: Prompt | None = None


class AgentAsTool(SubAgentUse):
    """Another agent, used as a tool. The terms can only narrow what that agent may do."""

    agent: "CompleteAgent"
    name: Name | None = None
    """The name of the tool; the agent's own name if absent."""


class CompleteAgent(Closed):
    """One agent with everything it needs: what it is, not how it is run."""

    name: Name = "agent"
    description: Annotated[str, Field(max_length=4000)] = ""
    """The description that other agents read when it is their tool."""
    config: AgentConfig = AgentConfig()
    tool_schemas: list[ToolSchema] = []
    agents_as_tools: list[AgentAsTool] = []
    model: ModelSpec = ModelSpec()
    kind: Kind = "react"
    graph: Name | None = None
    """For kind ``graph``: the name under which the operator registered it."""
    defaults: RunDefaults = RunDefaults()
    """For kind ``graph``: input, config and context of its runs."""

    def narrowed(self, allowed_tools: Collection[str] | None, mission_override: str | None) -> "CompleteAgent":
        """The same agent on narrower terms: fewer tools, another mission.

        Raises:
            SpecError: it does not have a tool of ``allowed_tools``.
        """
        if self.kind == "graph" and not (allowed_tools is None and mission_override is None):
            problem = "is a graph of its own and cannot be narrowed; use it as it is"
            raise SpecError(f"agent {self.name!r} {problem}")
        changes: dict[str, object] = {}
        if allowed_tools is not None:
            agents = {use.name or use.agent.name: use for use in self.agents_as_tools}
            own = {tool.name: tool for tool in self.tool_schemas}
            for name in allowed_tools:
                if name not in agents and name not in own:
                    problem = f"does not have the tool {name!r}, so it cannot be left with it"
                    raise SpecError(f"agent {self.name!r} {problem}")
            changes["tool_schemas"] = [own[name] for name in own if name in allowed_tools]
            changes["agents_as_tools"] = [agents[name] for name in agents if name in allowed_tools]
        if mission_override is not None:
            changes["config"] = self.config.model_copy(update={"mission": mission_override})
        return self.model_copy(update=changes)


class ToolList(Closed):
    """The tools and sub-agents that an agent may call; everything else is refused."""

    allow: list[Name] = []
    """Names or aliases of tools, and ids of sub-agents."""
    agents: dict[Name, SubAgentUse] = {}
    """Narrower terms for sub-agents that ``allow`` names."""


class AgentSpec(AgentConfig, RunDefaults):
    """One agent of a YAML document."""

    id: Name
    role: Literal["orchestrator", "sub-agent"] = "orchestrator"
    kind: Kind = "react"
    """``react`` thinks and calls tools; ``deep`` also keeps files; ``workplan`` lets its sub-agents do the tasks of a
    plan; ``graph`` is one of the operator's graphs."""
    graph: Name | None = None
    """For kind ``graph``: the name under which the operator registered it."""
    description: Annotated[str, Field(max_length=4000)] = ""
    tools: ToolList = ToolList()
    model: ModelSpec | None = None

    def settings(self) -> AgentConfig:
        return AgentConfig.model_validate({name: getattr(self, name) for name in AgentConfig.model_fields})

    def defaults(self) -> RunDefaults:
        return RunDefaults(input=self.input, config=self.config, context=self.context)


class Storage(Closed):
    checklist_dir: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(relative_folder)] = "checklists"
    """A folder below the data folder."""


class Quotas(Closed):
    """The most that one run may use, all agents together."""

    steps: Annotated[int | None, Field(ge=1)] = None
    """Model calls."""
    tokens: Annotated[int | None, Field(ge=1)] = None
    """Tokens read and written."""
    seconds: Seconds | None = None


class SystemSpec(Closed):
    name: Name
    description: Annotated[str, Field(max_length=4000)] = ""
    default_model: ModelSpec = ModelSpec()
    storage: Storage = Storage()
    coalescing_window: Annotated[float | None, Field(ge=0, le=0.25)] = None
    """Seconds in which tokens are merged before they are stored; 0 stores each. The server's setting if absent."""
    store_prompts: bool = False
    """Store the prompt of each model call, redacted, in its llm_start; shown with profile=debug only."""
    quotas: Quotas = Quotas()
    metadata: Annotated[dict[Key, Note], Field(max_length=50)] = {}
    """For clients, which find it in the list of agent systems; agents do not see it."""


class AgentSystem(Closed):
    """One YAML document: a system and its agents."""

    version: Literal[1]
    system: SystemSpec
    agents: Annotated[list[AgentSpec], Field(min_length=1, max_length=200)]

    def orchestrator(self) -> AgentSpec:
        orchestrators = (agent for agent in self.agents if agent.role == "orchestrator")
        return next(orchestrators, self.agents[0])


class ChatMessage(Closed):
    """A message of a conversation as a front end has it."""

    role: Literal["user", "assistant", "system"] = "user"
    content: str
