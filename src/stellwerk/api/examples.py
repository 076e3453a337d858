"""Examples: one of each answer for the published OpenAPI, in the types that the routes use."""

from collections.abc import Callable
from typing import Any

from stellwerk.agents.tool_spec import DescribedTool
from stellwerk.api import answers
from stellwerk.api.administration_answers import (
    AuditPage,
    KeyList,
    KeyTold,
    Me,
    NewKey,
    SecretList,
    SecretsRotated,
    SecretTold,
    TenantList,
    TenantTold,
    TicketTold,
)
from stellwerk.api.usage_answers import UsagePage
from stellwerk.dialects import chunks, events
from stellwerk.dialects.base import Dialect, translate
from stellwerk.envelope import payloads as p
from stellwerk.envelope.frames import Origin, Stored
from stellwerk.envelope.model import Envelope, LlmToken, Message, RunEnd, RunStart, encode
from stellwerk.runs.commands import Accepted, Stopped, Withdrawn
from stellwerk.runs.sessions import Session
from stellwerk.systems.rows import Listed
from stellwerk.tenants.audit import Recorded
from stellwerk.tenants.keys import ApiKey
from stellwerk.tenants.limits import Limits
from stellwerk.tenants.quotas import Used
from stellwerk.tenants.usage import UsageRow
from stellwerk.views.checklist import Checklist, Task, markdown
from stellwerk.views.transcript import Entry
from stellwerk.views.usage import UsageTold

SESSION_ID = "034yEnpqoVHlJvW0id6mKI"
_RUN, _MESSAGE, _ANSWER = "034yEnq1XbYV7f9k2TnHcA", "034yEnq1XbYV7f9k2TnHcB", "lc_run--019a"
_NOW = 1763251200.0
_TEXT = "It is sunny."

SESSION = Session(
    id=SESSION_ID,
    sid=SESSION_ID,
    agent_system_id="demo",
    title="weather",
    created_at=_NOW,
    last_activity_at=_NOW + 4,
    position=5,
    status="completed",
    round=1,
)
SESSIONS = answers.SessionPage(sessions=[SESSION], next=None)
BEGUN = Session(
    id=SESSION_ID,
    sid=SESSION_ID,
    agent_system_id="demo",
    user_id="ada",
    created_at=_NOW,
    last_activity_at=_NOW,
    position=0,
)
ACCEPTED = Accepted(round=1, run_id=_RUN, message_id=_MESSAGE, position=2, after=0)
WITHDRAWN = Withdrawn(message_id=_MESSAGE, text="and tomorrow?", documents=[])
INTERRUPTED = Accepted(
    round=2, run_id=_RUN, message_id="034yEnq1XbYV7f9k2TnHcC", position=11, after=9, withdrawn=[WITHDRAWN]
)
ANSWERED = Accepted(round=2, run_id=_RUN, ask_id="6d5f0c1f0b8a4d7e", position=18, after=16)
STOPPED = Stopped(
    status="stopped",
    round=1,
    run_id=_RUN,
    position=9,
    withdrawn=[WITHDRAWN],
)


def _story() -> list[Envelope]:
    run: dict[str, Any] = {"ts": _NOW, "trace_id": _RUN, "run_id": _RUN}
    begun = p.RunStarted(round=1, trigger="message", system="demo", system_version=1, message_id=_MESSAGE)
    asked = p.Said(message_id=_MESSAGE, role="user", content=[p.TextPart(text="weather")], status="first")
    said = p.Said(message_id=_ANSWER, role="assistant", content=[p.TextPart(text=_TEXT)], status="last")
    return [
        RunStart(**run, parent_id=None, call_id=_RUN, seq=1, payload=begun),
        Message(**run, parent_id=_RUN, call_id="m1", seq=1, payload=asked),
        LlmToken(**run, parent_id=_RUN, call_id=_ANSWER, seq=2, agent="assistant", payload=p.Token(text=_TEXT)),
        Message(**run, parent_id=_RUN, call_id="m2", seq=1, agent="assistant", payload=said),
        RunEnd(**run, parent_id=None, call_id=_RUN, seq=2, payload=p.RunEnded(status="completed", result=_TEXT)),
    ]


def native(frame: Callable[[str, Stored, Origin], bytes]) -> bytes:
    """A short session as envelopes."""
    return b"".join(frame(SESSION_ID, Stored(n, encode(told)), "live") for n, told in enumerate(_story(), 1))


def dialect(spoken: Dialect) -> bytes:
    """The same in a dialect."""
    told = translate(spoken.translator(SESSION_ID), enumerate(_story(), 1))
    return b"".join(spoken.frame(cursor, chunk) for cursor, chunk in told)


CHUNKS, EVENTS = dialect(chunks.DIALECT), dialect(events.DIALECT)
TRANSCRIPT = answers.Transcript(
    messages=[
        Entry(position=2, kind="message", role="user", text="weather", message_id=_MESSAGE, run_id=_RUN, ts=_NOW),
        Entry(position=4, kind="message", role="assistant", text=_TEXT, message_id=_ANSWER, run_id=_RUN, ts=_NOW),
    ],
    next=None,
)
_TASK = Task(id="t1", title="Look at the weather", owner="assistant", creator="assistant")
USAGE: UsageTold = {
    "input_tokens": 20,
    "output_tokens": 10,
    "model_calls": 2,
    "tool_calls": 1,
    "runs": 1,
    "seconds": 1.5,
    "models": [{"model": "scripted", "input_tokens": 20, "output_tokens": 10, "calls": 2}],
}
STATE: answers.SessionState = {
    "status": "running",
    "round": 1,
    "run_id": _RUN,
    "awaiting_user_input": False,
    "questions": (),
    "version": 1,
    "tasks": (_TASK,),
    "blocker": None,
    "open_questions": (),
    "progress": {"percent": 0, "message": None, "tasks_over": 0, "tasks": 1},
    "usage": USAGE,
    "last_activity": _NOW,
    "position": 12,
}
TODOLIST = markdown(Checklist(version=1, tasks=(_TASK,)))
_TODOLIST_AT = f"/sessions/{SESSION_ID}/artifacts/todolist.md"
ARTIFACTS = answers.Artifacts(
    artifacts=[
        answers.Artifact(kind="todolist", name="todolist.md", mime="text/markdown", href=_TODOLIST_AT),
        answers.Artifact(
            kind="document",
            name="report.md",
            mime="text/markdown",
            href="/files/9f86d081884c7d65",
            size=8,
            document_id="9f86d081884c7d65",
            created_at=_NOW,
            run_id=_RUN,
            agent="assistant",
        ),
    ]
)
REGISTERED = answers.RegisteredSystem(id="helpdesk", version=1, warnings=[])
RESOLVED: answers.ResolvedSystem = {
    "id": "helpdesk",
    "version": 1,
    "versions": (1,),
    "created_at": _NOW,
    "description": "",
    "orchestrator": "assistant",
    "agents": [
        {
            "id": "assistant",
            "role": "orchestrator",
            "kind": "agent",
            "description": "",
            "model": {"provider": "scripted", "model": "scripted"},
            "tools": ["get_weather"],
            "agents": [],
            "config": {},
        }
    ],
    "tools": ["get_weather"],
    "models": ["scripted:scripted"],
    "default_model": {"provider": "scripted", "model": "scripted"},
    "storage": {},
    "coalescing_window": None,
    "store_prompts": False,
    "quotas": {},
    "warnings": [],
    "problems": [],
}
_LISTED = Listed(id="demo", version=1, created_at=_NOW, updated_at=_NOW, description="Everything, without a key.")
SYSTEMS = answers.SystemPage(agent_systems=[_LISTED], next=None)
TOOL: DescribedTool = {
    "name": "get_weather",
    "description": "Tell the weather in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "output": "table",
    "timeout": 60.0,
    "idempotent": True,
    "effects": "read",
    "untrusted": False,
    "runs_in": "thread",
    "aliases": [],
}
TENANT = TenantTold(name="acme", number=2, created_at=_NOW, locked=False)
TENANTS = TenantList(tenants=[TENANT])
_KEY = ApiKey("4fJq0aZ81xYb", "acme", "ci", "ada", "member", ("read",), b"", created_at=_NOW)
ME = Me(tenant="acme", user="ada", role="member", scopes=["read", "run"])
KEYS = KeyList(keys=[KeyTold.of(_KEY)])
NEW_KEY = NewKey(**KeyTold.fields_of(_KEY), token=f"sw_{_KEY.id}_{'…' * 3}")
SECRETS = SecretList(
    secrets=[
        SecretTold(name="openai_api_key", agent_system_id=None, created_at=_NOW, updated_at=_NOW, readable=True),
        SecretTold(name="openai_api_key", agent_system_id="helpdesk", created_at=_NOW, updated_at=_NOW, readable=True),
    ]
)
ROTATED = SecretsRotated(key="4be1c0a7d35f", sealed=2, left=0, changed=True)
AUDIT = AuditPage(
    entries=[
        Recorded(
            at=_NOW,
            who="ada",
            what="DELETE /sessions/{sid}",
            outcome=204,
            on={"sid": SESSION_ID},
            origin="127.0.0.1",
            key_id=_KEY.id,
            number=1,
            hash="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        )
    ],
    next=None,
)
LIMITS = Limits(requests=600, runs=5, tokens=1_000_000)
TENANT_USAGE = UsagePage(
    tenant="acme",
    limits=LIMITS,
    used=Used(requests=12, runs=1, streams=2, bytes=23, steps=40, tokens=52_000, seconds=93.5),
    usage=[
        UsageRow(
            day="2026-11-16",
            user="ada",
            system="helpdesk",
            model="gpt-5",
            model_calls=40,
            input_tokens=50_000,
            output_tokens=2_000,
            tool_calls=0,
            runs=0,
            seconds=0.0,
        )
    ],
    next=None,
)
TICKET = TicketTold(ticket="7Qx…", expires_at=_NOW + 30)
FILE = answers.StoredFile(
    id="9f86d081884c7d65",
    fileId=7,
    filename="a.csv",
    mime="text/csv",
    size=23,
    created_at=_NOW,
    href="/files/9f86d081884c7d65",
)
