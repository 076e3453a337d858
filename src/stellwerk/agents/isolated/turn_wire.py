"""Turns and states as plain values, for the way between the server and a worker."""

from collections.abc import Mapping
from typing import Any

import msgspec

from stellwerk.agents.runtime.conversation import RunParameters, Turn
from stellwerk.agents.runtime.saved_states import PendingInterrupt, PendingTask, SavedState
from stellwerk.envelope.model import Message, decode, encode
from stellwerk.envelope.payloads import FilePart
from stellwerk.spec.model import ChatMessage
from stellwerk.views.questions import GoOn


def packed_turn(turn: Turn) -> dict[str, Any]:
    """A turn for the worker; its pause stays in the server."""
    return {
        "session_id": turn.session_id,
        "epoch": turn.epoch,
        "user_id": turn.user_id,
        "message_id": turn.message_id,
        "text": turn.text,
        "files": msgspec.to_builtins(list(turn.files)),
        "parameters": [turn.parameters.input, turn.parameters.config, turn.parameters.context],
        "warned": turn.warned,
        "answers": {ask_id: each for ask_id, each in turn.answers.items() if not isinstance(each, GoOn)},
        "goes_on_at": [ask_id for ask_id, each in turn.answers.items() if isinstance(each, GoOn)],
        "state_changed": turn.state_changed,
        "earlier": [(said.role, said.content) for said in turn.earlier],
        "unheard": [encode(message) for message in turn.unheard],
        "from_checkpoint": turn.from_checkpoint,
        "state_changes": dict(turn.state_changes),
        "goes_on": turn.goes_on,
    }


def turn_of(given: Mapping[str, Any]) -> Turn:
    input_, config, context = given["parameters"]
    unheard = [decode(body) for body in given["unheard"]]
    return Turn(
        given["session_id"],
        epoch=given["epoch"],
        user_id=given["user_id"],
        message_id=given["message_id"],
        text=given["text"],
        files=msgspec.convert(given["files"], type=list[FilePart]),
        parameters=RunParameters(input=input_, config=config, context=context),
        warned=given["warned"],
        answers={**given["answers"], **{ask_id: GoOn(True) for ask_id in given["goes_on_at"]}},
        state_changed=given["state_changed"],
        earlier=[ChatMessage.model_validate({"role": role, "content": content}) for role, content in given["earlier"]],
        unheard=[message for message in unheard if isinstance(message, Message)],
        from_checkpoint=given["from_checkpoint"],
        state_changes=given["state_changes"],
        goes_on=given["goes_on"],
    )


def packed_state(state: SavedState) -> list[Any]:
    tasks = [
        (task.id, task.name, task.error, [(asked.id, asked.value) for asked in task.interrupts]) for task in state.tasks
    ]
    rest = (state.checkpoint_id, state.parent_id, state.created_at, state.source, state.step)
    return [state.values, list(state.next), tasks, *rest]


def state_of(packed: list[Any]) -> SavedState:
    values, following, tasks, *rest = packed
    return SavedState(
        values,
        following,
        [
            PendingTask(id_, name, error, [PendingInterrupt(*asked) for asked in interrupts])
            for id_, name, error, interrupts in tasks
        ],
        *rest,
    )
