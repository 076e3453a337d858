"""Decisions: how a call that waits for an approval can be answered, and what is wrong with an answer that is none."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from stellwerk.errors import InvalidField
from stellwerk.spec.foreign import objection

_SHOWN = 400
"""Characters of arguments that are repeated in an example."""


@dataclass(frozen=True, slots=True)
class Approval:
    schema: Mapping[str, Any]
    tool: str | None
    args: Any

    def check(self, given: Any) -> None:
        """
        Raises:
            InvalidField: it is none of the decisions that are open; shows these as they are sent.
        """
        if objection(dict(self.schema), given) is None:
            return
        forms = forms_of(self.schema)
        chosen = given.get("type") if isinstance(given, dict) else None
        if not isinstance(chosen, str) or chosen not in forms:
            open_ones = " or ".join(map(self._example, forms))
            raise InvalidField(f"this is not one of the decisions that are open; answer {open_ones}", field="data")
        self._check_tool(given)
        self._check_form(given, forms[chosen], chosen)

    def _check_tool(self, given: Mapping[str, Any]) -> None:
        edited = given.get("edited_action")
        named = edited.get("name", self.tool) if isinstance(edited, dict) else self.tool
        if named != self.tool:
            only = f"it can only change the arguments of {_json(self.tool)}"
            raise InvalidField(f"an edit cannot call another tool, {only}", field="data.edited_action.name")

    def _check_form(self, given: Any, form: Mapping[str, Any], chosen: str) -> None:
        """Against the one form that was meant: against all of them, nothing can be said but that none fits."""
        wrong = objection({"$defs": self.schema.get("$defs", {}), **form}, given)
        why = "" if wrong is None else f": {wrong.message[:300]}"
        place = ["data"] if wrong is None else ["data", *map(str, wrong.absolute_path)]
        raise InvalidField(
            f"the answer does not fit the question{why}; for example {self._example(chosen)}", field=".".join(place)
        )

    def _example(self, decision: str) -> str:
        more: dict[str, Any] = {}
        if decision == "respond":
            more = {"message": "what the tool would have said"}
        elif decision == "edit":
            args = self.args if len(_json(self.args)) <= _SHOWN else {}
            more = {"edited_action": {"name": self.tool, "args": args}}
        return _json({"data": {"type": decision, **more}})


def forms_of(schema: Any) -> Mapping[str, Mapping[str, Any]]:
    """The decisions that a schema names, each with its form; none, if it is not that of an approval."""
    match schema:
        case {"discriminator": {"mapping": dict(places)}}:
            return {decision: {"$ref": place} for decision, place in places.items()}
        case {"properties": {"type": {"const": str(decision)}}}:  # the only one that there is has no name for its form
            return {decision: schema}
    return {}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
