"""The worker of a tool process: imports a function, calls it, writes the result as MessagePack."""

import traceback
from typing import Any, NoReturn

import msgspec

from stellwerk.agents.graphs.import_reference import load_reference
from stellwerk.agents.tools.spec import ToolSpec, tool
from stellwerk.envelope.to_json import clean_text, to_result
from stellwerk.processes.supervisor_script import leave_with

MAX_ANSWER_BYTES = 16 * 1024 * 1024


def work(request: dict[str, Any], answer: int) -> NoReturn:
    try:
        outcome = _call(request)
    except BaseException as error:  # noqa: BLE001 - it is the answer
        traceback.print_exception(error)
        outcome = {"failure": clean_text(f"{type(error).__name__}: {error}"[:2000])}
    leave_with(_encode(outcome), answer)


def _call(request: dict[str, Any]) -> dict[str, Any]:
    found = load_reference(request["reference"])
    spec = found if isinstance(found, ToolSpec) else tool(found)
    checked = spec.arguments.model_validate_json(request["arguments"])
    value = spec.function(**{name: checked.__dict__[name] for name in spec.arguments.model_fields})
    result, notes, blobs = to_result(value)
    return {"result": result, "notes": notes, "blobs": blobs}


def _encode(outcome: dict[str, Any]) -> bytes:
    encoded = msgspec.msgpack.encode(outcome)
    if len(encoded) <= MAX_ANSWER_BYTES:
        return encoded
    limit = f"at most {MAX_ANSWER_BYTES >> 20} MiB are taken; return less, or in parts"
    return msgspec.msgpack.encode({"failure": f"its result has {len(encoded) >> 20} MiB; {limit}"})
