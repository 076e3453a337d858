"""What a round of a workplan has cost, kept in its state: limits hold after a question or a crash, too."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from stellwerk.agents.middleware.budget import Budget, current
from stellwerk.agents.middleware.conversation import SECONDS, SPENT, Spent, seconds_in, since_input, spent_in

NOTHING: Mapping[str, Any] = {"steps": 0, "tokens": 0, "seconds": 0.0}


def note_of(cost: Mapping[str, Any]) -> dict[str, Any]:
    """For the metadata of a message, of which it is the cost; the time is noted if it is limited."""
    spent = {SPENT: {"steps": cost["steps"], "tokens": cost["tokens"]}}
    return spent | ({SECONDS: cost["seconds"]} if cost["seconds"] else {})


def cost_of(inside: Budget, before: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """What was spent inside and before; ``seconds`` is how long the run had been at work by then."""
    spent = inside.spent + Spent(before["steps"], before["tokens"])
    return {"steps": spent.steps, "tokens": spent.tokens, "seconds": inside.seconds() or 0.0}


def cost_so_far(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """What the messages of the current round have cost."""
    said = since_input(messages)
    spent = spent_in(said)
    return {"steps": spent.steps, "tokens": spent.tokens, "seconds": seconds_in(said)}


def catch_up(cost: Mapping[str, Any], beside: Sequence[BaseMessage] = ()) -> None:
    """Let the run know of a cost, and of what the messages ``beside`` have cost, as far as it does not."""
    known = Spent(cost["steps"], cost["tokens"]) + spent_in(beside)
    current().catch_up(known, seconds=max(cost["seconds"], seconds_in(beside)))
