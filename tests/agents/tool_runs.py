"""A tool called by a model in a real graph."""

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.tools.call import SaveFiles, langchain_tool
from stellwerk.agents.tools.registry import ARTIFACT_KEY, ToolSpec
from stellwerk.spec.script import ScriptRule, ScriptStep


def graph_calling(tools: Sequence[BaseTool], name: str, args: dict[str, Any], **options: Any) -> Any:
    """An agent that has these tools, and whose model calls one of them and is content with what it says."""
    steps = [ScriptStep(call=name, args=args), ScriptStep(say="Done.")]
    return create_agent(ScriptedModel(script=[ScriptRule(steps=steps)]), tools, name="boss", **options)


async def called(
    spec: ToolSpec,
    args: dict[str, Any] | None = None,
    *,
    keep: SaveFiles | None = None,
) -> ToolMessage:
    """What the graph holds after a model has called the tool."""
    offered = langchain_tool(spec, keep=keep)
    state = await graph_calling([offered], offered.name, args or {}).ainvoke({"messages": [("user", "go")]})
    (message,) = (message for message in state["messages"] if isinstance(message, ToolMessage))
    return message


def result_of(message: ToolMessage) -> Any:
    """The typed result, as the log gets it."""
    assert message.artifact[ARTIFACT_KEY] == 1
    return message.artifact["result"]


class Ends(BaseCallbackHandler):
    """How calls ended, as our log hears it."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        self.errors.append(type(error).__name__)
