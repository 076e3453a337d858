"""What an agent system is: agents, their models, their tools. Data only; nothing here can run."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ScriptStep(_Closed):
    """One turn of the scripted model: say something, and perhaps ask for a tool."""

    say: str = ""
    """May quote {message}, the beginning of the user's last text, and {result}, what the last tool returned."""
    call: Name | None = None
    args: dict[str, Any] = {}


class ScriptRule(_Closed):
    """Steps that are played when the user's text contains a word; without a word, always."""

    when: str | None = None
    steps: Annotated[list[ScriptStep], Field(min_length=1)]


class ModelSpec(_Closed):
    provider: Literal["scripted"] = "scripted"
    model: str = "scripted"
    pace: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Seconds between two tokens of the scripted model."""
    script: list[ScriptRule] = []


class ToolList(_Closed):
    allow: list[Name] = []


class AgentSpec(_Closed):
    id: Name
    role: Literal["orchestrator", "sub-agent"] = "orchestrator"
    system_prompt: str = ""
    tools: ToolList = ToolList()
    model: ModelSpec | None = None


class SystemSpec(_Closed):
    name: Name
    default_model: ModelSpec = ModelSpec()


class AgentSystem(_Closed):
    """One YAML document: a system and its agents."""

    version: Literal[1]
    system: SystemSpec
    agents: Annotated[list[AgentSpec], Field(min_length=1)]

    def orchestrator(self) -> AgentSpec:
        return next((agent for agent in self.agents if agent.role == "orchestrator"), self.agents[0])
