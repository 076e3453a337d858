"""Questions of a run: asked at the keyboard, or answered by their defaults without a user."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stellwerk.cli.render.screen import Screen
from stellwerk.cli.render.text import cut, one_line, value, visible
from stellwerk.cli.terminal import Keyboard
from stellwerk.envelope.model import AskUser
from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import InvalidField
from stellwerk.spec.model import DECISIONS
from stellwerk.spec.review_requests import decision_in_words
from stellwerk.views.questions import check_answer

_TRUE = ("yes", "y", "true")
_FALSE = ("no", "n", "false")
_HINTS = {"boolean": "yes or no", "integer": "a whole number", "number": "a number", "string": ""}
"""The types of plain values, and what the prompt says of them."""
_REFUSE = "/refuse"
_PROMPT = "> "
_ALWAYS_ASKED = "Tool execution requires approval"
"""LangChain's reason for a tool that always needs approval: it adds nothing."""


def answered(asked: Asked, given: Any) -> Answered:
    """A text is a text; anything else is data."""
    if isinstance(given, str):
        return Answered(ask_id=asked.ask_id, text=given)
    return Answered(ask_id=asked.ask_id, data=given)


def chosen(options: Sequence[Any], typed: str) -> Any:
    """The option whose number, name or beginning was typed."""
    text = typed.strip().lower()
    if text.isdecimal() and 1 <= int(text) <= len(options):
        return options[int(text) - 1]
    found = [option for option in options if value(option).lower() == text]
    if text and not found:
        found = [option for option in options if value(option).lower().startswith(text)]
    if len(found) != 1:
        raise InvalidField(f"type a number from 1 to {len(options)}, or its name", field="text")
    return found[0]


def typed_as(schema: Mapping[str, Any], typed: str) -> Any:
    """The typed text as a value of the schema's type; the text itself if it is none."""
    kind = schema.get("type")
    text = typed.strip()
    if isinstance(schema.get("enum"), list):
        return chosen(schema["enum"], typed)
    if kind == "boolean" and text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    if kind == "string":
        return typed
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return typed


def fields(schema: Any) -> dict[str, Mapping[str, Any]] | None:
    """The fields of a form, if the schema is one: an object of plain values."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return None
    found = schema.get("properties")
    if not isinstance(found, dict) or not found:
        return None
    for field in found.values():
        if not isinstance(field, dict) or ("enum" not in field and field.get("type") not in _HINTS):
            return None
    return found


def hint(schema: Mapping[str, Any]) -> str:
    if isinstance(schema.get("enum"), list):
        return " | ".join(value(option) for option in schema["enum"])
    kind = _HINTS.get(str(schema.get("type")), f"JSON: {value(schema)}")
    if "minimum" in schema or "maximum" in schema:
        return f"{kind} {schema.get('minimum', '')}…{schema.get('maximum', '')}".strip()
    return kind


class Questions:
    """Asks at the keyboard; without a user, takes the defaults of the questions and prints them."""

    def __init__(self, screen: Screen, keyboard: Keyboard, agent: str, *, has_user: bool) -> None:
        """``agent`` is the outermost one; any other that asks is named."""
        self._screen = screen
        self._say = screen.say
        self._line = keyboard.line
        self._agent = agent
        self._has_user = has_user

    async def answers(self, asks: Sequence[AskUser]) -> Mapping[str, Answered] | None:
        """Answers by the id of their question; None if one of the questions stays open."""
        self._screen.settle()  # a status line would cover the prompt
        given: dict[str, Answered] = {}
        for number, ask in enumerate(asks, 1):
            before = f"({number} of {len(asks)}) " if len(asks) > 1 else ""
            if ask.agent and ask.agent != self._agent:
                before += f"{one_line(ask.agent)} asks: "
            asked = ask.payload
            answer = await self._typed(asked, before) if self._has_user else self._default(asked)
            if answer is None:
                return None
            given[asked.ask_id] = answer
        return given

    def _default(self, asked: Asked) -> Answered | None:
        if asked.default is not None:
            answer = answered(asked, asked.default)
            default = value(asked.default)
            try:
                check_answer(asked, answer)
                self._say(f"? {one_line(asked.question)}  {default} (its default)", "warn")
                return answer
            except InvalidField as error:
                self._say(f"! its default is {default}, but {error.message}", "warn")
        self._say(f"? {asked.question}", "warn")
        self._say(
            "stellwerk: the run asks this, and there is no user to answer it; run it in a terminal, "
            "without a pipe and without --json, or give the question a default"
        )
        return None

    async def _typed(self, asked: Asked, before: str) -> Answered | None:
        while True:
            try:
                answer = await self._ask(asked, before)
                check_answer(asked, answer)
                return answer
            except InvalidField as error:
                self._say(f"! {error.message}", "bad")
            except EOFError:
                self._say("stellwerk: no answer, so the run ends at its question")
                return None

    async def _ask(self, asked: Asked, before: str) -> Answered:
        if asked.kind == "approval":
            return await self._approval(asked, before)
        self._say(f"? {before}{asked.question}", "bold")
        if form := fields(asked.schema):
            return await self._form(asked, form)
        if asked.kind == "elicitation":
            self._say(f"  ({_REFUSE} refuses)", "dim")
        if asked.options:
            given = await self._choice(asked.options, asked.default)
        else:
            given = await self._value(asked.schema or {"type": "string"}, asked.default)
        refused = asked.kind == "elicitation" and given == _REFUSE
        return Answered(ask_id=asked.ask_id, refused=True) if refused else answered(asked, given)

    async def _choice(self, options: Sequence[Any], default: Any) -> Any:
        typed = await self._choose(options, default)
        return default if not typed.strip() and default is not None else chosen(options, typed)

    async def _choose(self, options: Sequence[Any], default: Any) -> str:
        """Show the options and return what is typed."""
        for number, option in enumerate(options, 1):
            self._say(f"  {number}) {value(option)}")
        if default is not None:
            self._say(f"  ({_default_hint(default)})", "dim")
        return await self._line(_PROMPT)

    async def _value(self, schema: Mapping[str, Any], default: Any) -> Any:
        hints = "; ".join(note for note in (hint(schema), _default_hint(default)) if note)
        if hints:
            self._say(f"  ({hints})", "dim")
        typed = await self._line(_PROMPT)
        if typed.strip():
            return typed_as(schema, typed)
        if default is None:
            raise InvalidField("an answer is needed", field="text")
        return default

    async def _form(self, asked: Asked, form: Mapping[str, Mapping[str, Any]]) -> Answered:
        needed = asked.schema.get("required", ())
        self._say(f"  ({_REFUSE} refuses)" if asked.kind == "elicitation" else "  (* is needed)", "dim")
        data: dict[str, Any] = {}
        for name, schema in form.items():
            typed = await self._line(_label(name, schema, name in needed))
            if typed.strip() == _REFUSE and asked.kind == "elicitation":
                return Answered(ask_id=asked.ask_id, refused=True)
            if typed.strip():
                data[name] = typed_as(schema, typed)
            elif schema.get("default") is not None:
                data[name] = schema["default"]
        return Answered(ask_id=asked.ask_id, data=data)

    async def _approval(self, asked: Asked, before: str) -> Answered:
        """Ask for approval, with the arguments in full."""
        tool = one_line(asked.tool_name or "a tool")
        self._say(f"? {before}May {tool} run?", "bold")
        why = asked.question.partition("\n\nTool: ")[0]
        if why != _ALWAYS_ASKED:
            self._say(f"  {why}", "warn")
        if asked.args:
            for line in visible(json.dumps(asked.args, indent=2, ensure_ascii=False)).splitlines():
                self._say(f"  {line}")
        options = asked.options or DECISIONS
        typed = await self._choose(options, asked.default)
        if not typed.strip() and asked.default is not None:
            typed = str(asked.default)
        said = decision_in_words(typed, asked.tool_name, None)
        is_said = isinstance(said, dict) and said["type"] in options
        decision = said["type"] if is_said else str(chosen(options, typed))
        if decision == "reject":
            reason = said.get("message") if is_said else None
            reason = reason or await self._line("Why? (enter gives no reason) ")
            return Answered(ask_id=asked.ask_id, refused=True, text=reason.strip() or None)
        data: dict[str, Any] = {"type": decision}
        if is_said and len(said) > 1:
            data = said
        elif decision == "respond":
            data["message"] = await self._line("The answer in its place: ")
        elif decision == "edit":
            typed = await self._line("Arguments to run it with, as JSON: ")
            args = typed_as({"type": "object"}, typed)
            if not isinstance(args, dict):
                remedy = 'write the arguments as a JSON object, such as {"city": "Berlin"}'
                raise InvalidField(remedy, field="data")
            data["edited_action"] = {"name": asked.tool_name, "args": args}
        return Answered(ask_id=asked.ask_id, data=data)


def _label(name: str, schema: Mapping[str, Any], needed: bool) -> str:
    about = one_line(str(schema.get("description") or schema.get("title") or ""))
    default = _default_hint(schema.get("default"))
    notes = "; ".join(note for note in (cut(about, 60), hint(schema), default) if note)
    return f"{one_line(name)}{'*' * needed}{f' ({notes})' if notes else ''}: "


def _default_hint(default: Any) -> str:
    return "" if default is None else f"enter takes {value(default)}"
