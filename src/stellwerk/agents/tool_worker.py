"""What the child of ``tool_process`` does: it imports one function, calls it, and answers in MessagePack."""

import sys
from types import TracebackType
from typing import Any, NoReturn

import msgspec

from stellwerk.agents.references import load_reference
from stellwerk.agents.tool_spec import ToolSpec, tool
from stellwerk.envelope.canonical import clean_text
from stellwerk.envelope.results import to_result
from stellwerk.processes.leaving import leave_with

LARGEST_ANSWER = 16 * 1024 * 1024


def work(request: dict[str, Any], answer: int) -> NoReturn:
    def tell_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.__excepthook__(kind, error, trace)
        leave_with(_encoded({"failure": clean_text(f"{kind.__name__}: {error}"[:2000])}), answer)

    sys.excepthook = tell_failure
    found = load_reference(request["reference"])
    spec = found if isinstance(found, ToolSpec) else tool(found)
    checked = spec.arguments.model_validate_json(request["arguments"])
    value = spec.function(**{name: checked.__dict__[name] for name in spec.arguments.model_fields})
    result, notes, blobs = to_result(value)
    leave_with(_encoded({"result": result, "notes": notes, "blobs": blobs}), answer)


def _encoded(outcome: dict[str, Any]) -> bytes:
    encoded = msgspec.msgpack.encode(outcome)
    if len(encoded) <= LARGEST_ANSWER:
        return encoded
    limit = f"at most {LARGEST_ANSWER >> 20} MiB are taken; return less, or in parts"
    return msgspec.msgpack.encode({"failure": f"its result has {len(encoded) >> 20} MiB; {limit}"})
