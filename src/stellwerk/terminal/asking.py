"""Asking: the questions of a run, one after the other, at the keyboard; or their defaults, where nobody sits."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from stellwerk.envelope.model import AskUser
from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import InvalidField
from stellwerk.spec.model import DECISIONS
from stellwerk.terminal import replies, short
from stellwerk.terminal.keyboard import Keyboard
from stellwerk.terminal.plain import one_line, visible
from stellwerk.terminal.views import View
from stellwerk.views.answering import check_answer

_REFUSE = "/refuse"
_PROMPT = "> "
_LINES = 40
"""Of a tool's arguments that are shown to whoever is to approve them."""
_ASKED_ALWAYS = "Tool execution requires approval"
"""What LangChain says where the tool is always asked about: nothing that one would not know."""

Given = Mapping[str, Answered]


class Asker(Protocol):
    async def answers(self, asks: Sequence[AskUser]) -> Given | None:
        """One answer for each question; None if there is one that nobody answers."""


class Defaults:
    """Nobody can be asked: what the questions themselves propose is taken, and said."""

    def __init__(self, view: View) -> None:
        self._view = view

    async def answers(self, asks: Sequence[AskUser]) -> Given | None:
        given: dict[str, Answered] = {}
        for ask in asks:
            asked = ask.payload
            answer = self._default(asked)
            if answer is None:
                self._view.say(f"? {visible(asked.question)}", "warn")
                self._view.say(
                    "stellwerk: the run asks this, and there is nobody to answer it; run it in a terminal, "
                    "without a pipe and without --json, or give the question a default"
                )
                return None
            given[asked.ask_id] = answer
            self._view.say(f"? {one_line(asked.question)}  {short.value(asked.default)} (its default)", "warn")
        return given

    def _default(self, asked: Asked) -> Answered | None:
        if asked.default is None:
            return None
        answer = replies.answered(asked, asked.default)
        try:
            check_answer(asked, answer)
        except InvalidField as error:
            self._view.say(f"! its default is {short.value(asked.default)}, but {error.message}", "warn")
            return None
        return answer


class AtTheKeyboard:
    def __init__(self, view: View, keyboard: Keyboard, agent: str) -> None:
        """``agent`` is the outermost one; any other that asks is named."""
        self._view, self._keyboard, self._agent = view, keyboard, agent

    async def answers(self, asks: Sequence[AskUser]) -> Given | None:
        given: dict[str, Answered] = {}
        for number, ask in enumerate(asks, 1):
            before = f"({number} of {len(asks)}) " if len(asks) > 1 else ""
            before += f"{one_line(ask.agent)} asks: " if ask.agent not in (None, self._agent) else ""
            try:
                given[ask.payload.ask_id] = await self._until_it_fits(ask.payload, before)
            except EOFError:
                self._view.say("stellwerk: no answer, so the run ends at its question")
                return None
        return given

    async def _until_it_fits(self, asked: Asked, before: str) -> Answered:
        while True:
            try:
                answer = await self._ask(asked, before)
                check_answer(asked, answer)
                return answer
            except InvalidField as error:
                self._view.say(f"! {visible(error.message)}", "bad")

    async def _ask(self, asked: Asked, before: str) -> Answered:
        if asked.kind == "approval":
            return await self._approval(asked, before)
        self._view.say(f"? {before}{visible(asked.question)}", "bold")
        if form := replies.fields(asked.schema):
            return await self._form(asked, form)
        if asked.kind == "elicitation":
            self._view.say(f"  ({_REFUSE} refuses)", "dim")
        if asked.options:
            given = await self._choice(asked.options, asked.default)
        else:
            given = await self._value(asked.schema or {"type": "string"}, asked.default)
        refused = asked.kind == "elicitation" and given == _REFUSE
        return Answered(ask_id=asked.ask_id, refused=True) if refused else replies.answered(asked, given)

    async def _choice(self, options: Sequence[Any], default: Any) -> Any:
        for number, option in enumerate(options, 1):
            self._view.say(f"  {number}) {short.value(option)}")
        if default is not None:
            self._view.say(f"  (enter takes {short.value(default)})", "dim")
        typed = await self._keyboard.line(_PROMPT)
        return default if not typed.strip() and default is not None else replies.chosen(options, typed)

    async def _value(self, schema: Mapping[str, Any], default: Any) -> Any:
        hints = [hint for hint in (replies.hint(schema),) if hint]
        hints += [f"enter takes {short.value(default)}"] * (default is not None)
        if hints:
            self._view.say(f"  ({'; '.join(hints)})", "dim")
        typed = await self._keyboard.line(_PROMPT)
        if typed.strip():
            return replies.typed_as(schema, typed)
        if default is None:
            raise InvalidField("an answer is needed", field="text")
        return default

    async def _form(self, asked: Asked, form: Mapping[str, Mapping[str, Any]]) -> Answered:
        needed = asked.schema.get("required", ())
        self._view.say(f"  ({_REFUSE} refuses)" if asked.kind == "elicitation" else "  (* is needed)", "dim")
        data: dict[str, Any] = {}
        for name, schema in form.items():
            typed = await self._keyboard.line(_label(name, schema, name in needed))
            if typed.strip() == _REFUSE and asked.kind == "elicitation":
                return Answered(ask_id=asked.ask_id, refused=True)
            if typed.strip():
                data[name] = _picked(schema, typed)
            elif schema.get("default") is not None:
                data[name] = schema["default"]
        return Answered(ask_id=asked.ask_id, data=data)

    async def _approval(self, asked: Asked, before: str) -> Answered:
        """Whoever approves sees all of it: arguments are not cut here, only very long ones after many lines."""
        tool = one_line(asked.tool_name or "a tool")
        self._view.say(f"? {before}May {tool} run?", "bold")
        why = asked.question.partition("\n\nTool: ")[0]
        if why != _ASKED_ALWAYS:
            self._view.say(f"  {visible(why)}", "warn")
        shown = visible(json.dumps(asked.args, indent=2, ensure_ascii=False)).splitlines() if asked.args else []
        for line in shown[:_LINES]:
            self._view.say(f"  {line}")
        if len(shown) > _LINES:
            self._view.say(f"  … {len(shown) - _LINES} more lines", "warn")
        decision = str(await self._choice(asked.options or DECISIONS, asked.default))
        if decision == "reject":
            reason = await self._keyboard.line("Why? (enter gives no reason) ")
            return Answered(ask_id=asked.ask_id, refused=True, text=reason.strip() or None)
        return Answered(ask_id=asked.ask_id, data={"type": decision, **await self._particulars(asked, decision)})

    async def _particulars(self, asked: Asked, decision: str) -> dict[str, Any]:
        if decision == "respond":
            return {"message": await self._keyboard.line("The answer in its place: ")}
        if decision != "edit":
            return {}
        typed = await self._keyboard.line("Arguments to run it with, as JSON: ")
        args = replies.typed_as({"type": "object"}, typed)
        if not isinstance(args, dict):
            raise InvalidField('write the arguments as a JSON object, such as {"city": "Berlin"}', field="data")
        return {"edited_action": {"name": asked.tool_name, "args": args}}


def _label(name: str, schema: Mapping[str, Any], needed: bool) -> str:
    about = one_line(str(schema.get("description") or schema.get("title") or ""))
    default = "" if schema.get("default") is None else f"enter takes {short.value(schema['default'])}"
    notes = "; ".join(note for note in (short.cut(about, 60), replies.hint(schema), default) if note)
    return f"{one_line(name)}{'*' * needed}{f' ({notes})' if notes else ''}: "


def _picked(schema: Mapping[str, Any], typed: str) -> Any:
    options = schema.get("enum")
    return replies.chosen(options, typed) if isinstance(options, list) else replies.typed_as(schema, typed)
