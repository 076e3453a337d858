"""Threads, states, runs and assistants in the JSON of LangGraph's API."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from msgspec import UNSET

from stellwerk.dialects.langgraph.history import Checkpoint
from stellwerk.runs.client_threads import Thread
from stellwerk.runs.run_info import RunInfo
from stellwerk.runs.sessions import Session
from stellwerk.runs.systems import SystemInfo

Json = dict[str, Any]
PREFIX = "/langgraph"
_THREAD = {"idle": "idle", "running": "busy", "completed": "idle", "stopped": "idle", "failed": "error"}
_RUN = {
    "waiting": "pending",
    "running": "running",
    "completed": "success",
    "awaiting_user": "success",
    "stopped": "interrupted",
    "failed": "error",
}


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def assistant_id(system: str) -> str:
    """The UUID of an agent system: clients tell graphs from assistants by the form of their ids."""
    return str(uuid5(NAMESPACE_URL, f"stellwerk:agent-system:{system}"))


def is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def assistant(system: SystemInfo, given: Mapping[str, Any]) -> Json:
    """``given`` are the defaults of its graph: config, context and metadata."""
    at = moment(system.created_at)
    return {
        "assistant_id": assistant_id(system.id),
        "graph_id": system.id,
        "name": system.id,
        "description": system.description or None,
        "config": given.get("config") or {},
        "context": given.get("context") or {},
        "metadata": {**(given.get("metadata") or {}), "created_by": "system"},
        "version": system.version,
        "created_at": at,
        "updated_at": at,
    }


def thread(found: Thread, session: Session | None, values: Json | None, latest: Checkpoint | None = None) -> Json:
    metadata = dict(found.metadata)
    status, changed = "idle", found.updated_at
    if session is not None:
        ids = {"graph_id": session.agent_system_id, "assistant_id": assistant_id(session.agent_system_id)}
        metadata = {**ids, **metadata}
        status = "interrupted" if session.awaiting_user_input else _THREAD[session.status]
        changed = max(changed, session.last_activity_at)
    config = UNSET if session is None else session.config
    return {
        "thread_id": found.id,
        "created_at": moment(found.created_at),
        "updated_at": moment(changed),
        "state_updated_at": moment(changed),
        "metadata": metadata,
        "status": status,
        "config": {} if config is UNSET else config,
        "values": values,
        **({} if session is None else {"interrupts": {}, "error": None}),
        **({} if latest is None else {"interrupts": _by_task(latest), "error": latest.error}),
    }


def _by_task(latest: Checkpoint) -> Json:
    return {task["id"]: task["interrupts"] for task in _tasks(latest) if task["interrupts"]}


def interrupt(asked: Json) -> Json:
    return {"id": asked["id"], "value": asked["value"]}


def state(thread_id: str, checkpoint: Checkpoint, values: Json | None = None) -> Json:
    ids = _ids(thread_id, checkpoint.checkpoint_id)
    parent = None if checkpoint.parent_id is None else _ids(thread_id, checkpoint.parent_id)
    return {
        "values": checkpoint.values if values is None else values,
        "next": list(checkpoint.next),
        "tasks": _tasks(checkpoint),
        "metadata": {
            "source": checkpoint.source,
            "step": checkpoint.step,
            "thread_id": thread_id,
            **({} if checkpoint.run_id is None else {"run_id": checkpoint.run_id}),
        },
        "created_at": moment(checkpoint.ts),
        "checkpoint": ids,
        "parent_checkpoint": parent,
        "checkpoint_id": checkpoint.checkpoint_id,
        "parent_checkpoint_id": checkpoint.parent_id,
        "interrupts": [interrupt(asked) for _, asked in checkpoint.interrupts],
    }


def empty_state(values: Json) -> Json:
    """Of a thread without a checkpoint."""
    unknown = ("metadata", "created_at", "checkpoint", "parent_checkpoint", "checkpoint_id", "parent_checkpoint_id")
    return {"values": values, "next": [], "tasks": [], **dict.fromkeys(unknown), "interrupts": []}


def _ids(thread_id: str, checkpoint_id: str) -> Json:
    return {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}


def _tasks(checkpoint: Checkpoint) -> list[Json]:
    found = []
    for node in checkpoint.next:
        asked = [interrupt(each) for name, each in checkpoint.interrupts if name == node]
        task = {"id": f"{checkpoint.checkpoint_id}:{node}", "name": node, "path": ["__pregel_pull", node]}
        found.append({**task, "error": checkpoint.error, "interrupts": asked, "checkpoint": None, "state": None})
    return found


def run(info: RunInfo, thread_id: str) -> Json:
    return {
        "run_id": info.run_id,
        "thread_id": thread_id,
        "assistant_id": assistant_id(info.agent_system_id),
        "created_at": moment(info.created_at),
        "updated_at": moment(info.ended_at or info.created_at),
        "status": _RUN[info.status],
        "metadata": {},
        "kwargs": {},
        "multitask_strategy": "enqueue",
    }
