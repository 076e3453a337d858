"""One question for one tool call, for LangChain before 1.4.6.

From that version on ``HumanInTheLoopMiddleware(interrupt_mode="per_call")`` does this; before, it asks
once for all calls of a turn, and LangGraph takes no schema of the answer.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import interrupt
from pydantic import BaseModel

from stellwerk.agents.middleware.types import AskTool, Middleware, ToolOutcome, ToolRequest
from stellwerk.agents.runtime.shapes import SCHEMA_KEY
from stellwerk.spec.json_schema import objection
from stellwerk.spec.model import Decision
from stellwerk.stream.states import APPROVAL

_REQUIRES = "Tool execution requires approval"
_EDITED = "Note: the user replaced this tool call before it ran; this is intended, so do not repeat your own."


@dataclass(eq=False)
class CallApproval(Middleware):
    decisions: Sequence[Decision]
    question: str | None = None

    async def awrap_tool_call(self, request: ToolRequest, handler: AskTool) -> ToolOutcome:
        call = request.tool_call
        schema = decision_schema(self.decisions, call["name"], request.tool)
        asked = {
            "type": APPROVAL,
            "tool_call_id": call["id"],
            "name": call["name"],
            "args": call["args"],
            "description": self.question or f"{_REQUIRES}\n\nTool: {call['name']}\nArgs: {call['args']}",
        }
        decision = interrupt({**asked, SCHEMA_KEY: schema})
        if wrong := objection(schema, decision):
            raise ValueError(f"the answer does not fit the question: {wrong.message}")
        if decision["type"] == "approve":
            return await handler(request)
        if decision["type"] == "edit":
            chosen = decision["edited_action"]["args"]
            outcome = await handler(request.override(tool_call={**call, "args": chosen}))
            return _with_note(
                outcome, f"{_EDITED} Executed instead: {call['name']} with arguments {json.dumps(chosen)}."
            )
        text = decision.get("message")
        if decision["type"] == "reject":
            rejected = f"User rejected the tool call for `{call['name']}`"
            text = f"{rejected} with reason: {text}" if text else f"{rejected} with id {call['id']}. It did not run."
        status: Any = "success" if decision["type"] == "respond" else "error"
        return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status=status)


def decision_schema(decisions: Sequence[Decision], name: str, tool: BaseTool | None) -> dict[str, Any]:
    """The JSON Schema of an answer, in the form that LangChain publishes for the same question."""
    text = {"type": "string"}
    args = _args_schema(tool)
    definitions = args.pop("$defs", {})
    action = _object({"name": {"const": name}, "args": args}, "name", "args")
    fields: dict[Decision, tuple[dict[str, Any], list[str]]] = {
        "approve": ({}, []),
        "reject": ({"message": text}, []),
        "respond": ({"message": text}, ["message"]),
        "edit": ({"edited_action": action}, ["edited_action"]),
    }
    forms: dict[str, Any] = {}
    for decision in dict.fromkeys(decisions):
        properties, required = fields[decision]
        form = _object({"type": {"type": "string", "const": decision}, **properties}, "type", *required)
        forms[decision] = {"title": f"{decision.title()}Decision", **form}
    if len(forms) == 1:
        return {**next(iter(forms.values())), "$defs": definitions}
    mapping = {decision: f"#/$defs/{form['title']}" for decision, form in forms.items()}
    return {
        "$defs": {**definitions, **{form["title"]: form for form in forms.values()}},
        "discriminator": {"mapping": mapping, "propertyName": "type"},
        "oneOf": [{"$ref": place} for place in mapping.values()],
    }


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _args_schema(tool: BaseTool | None) -> dict[str, Any]:
    schema = tool.tool_call_schema if tool is not None else None
    if isinstance(schema, dict):
        return dict(schema)
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return schema.model_json_schema()
    return {"type": "object"}


def _with_note(outcome: ToolOutcome, note: str) -> ToolOutcome:
    """The result of an edited call; it tells the model what really ran."""
    if isinstance(outcome, ToolMessage):
        separator = "\n\nTool response:\n" if outcome.text else ""
        return outcome.model_copy(update={"content": f"{note}{separator}{outcome.text}"})
    if isinstance(outcome.update, dict):
        messages = [_with_note(each, note) for each in outcome.update.get("messages", ())]
        return replace(outcome, update={**outcome.update, "messages": messages})
    return outcome
