"""All routes, in the order in which a newcomer needs them, and what /docs says about them."""

from fastapi import APIRouter

from stellwerk.api import (
    administration,
    conversation,
    files,
    metrics,
    reading,
    secrets,
    sessions,
    state,
    stream_test,
    systems,
    tickets,
    tools,
    usage,
    websocket,
    workflow_polling,
    workflow_removal,
    workflows,
)
from stellwerk.api.services import Services

ABOUT = """\
Begin a session (`POST /sessions` with `{"agent_system_id": "demo"}`), send it a message, follow its stream.
The demo system needs no API key and knows the words
`weather`, `table`, `file`, `ask`, `delegate`, `plan`, `slow` and `fail`.

Every run is told in one log per session, as **envelopes** that count 1, 2, 3 …: all ways to read give the same ones,
and a reader that was away comes back with the last number it has.

Every error is `application/problem+json`: a stable `code`, what is wrong, and what to do.
"""
TAGS = [
    {"name": "sessions", "description": "A session is one conversation with an agent system."},
    {
        "name": "conversation",
        "description": "What you say. 202 means: it is in the log, and its run will end visibly. "
        "What comes of it is told to readers.",
    },
    {
        "name": "reading",
        "description": "What happens, as it happens or page by page. There is a WebSocket as well, which OpenAPI "
        "cannot describe: `/sessions/{sid}/ws`.",
    },
    {"name": "state", "description": "What can be known of a session without following it; folded from its log."},
    {"name": "agent systems", "description": "Agents, described in YAML: who there is, and what they may use."},
    {"name": "tools", "description": "What an agent system may name here."},
    {"name": "files", "description": "Uploads, and what tools have made."},
    {
        "name": "workflows",
        "description": "The same sessions for clients that start something, poll, and download what was made. "
        "Everything that is sent wrong is 400 here.",
    },
    {"name": "one request", "description": "Ask and read the answer in one request, without a session of your own."},
    {"name": "administration", "description": "Tenants, their keys, secrets and use, and who did what. For admins."},
    {"name": "operations", "description": "For whoever runs the server."},
]
_MODULES = (
    workflow_polling,  # first, because nothing else is asked for as often, and routes are tried one after the other
    *(sessions, conversation, reading, state, systems, tools, files),
    *(workflows, workflow_removal, stream_test, tickets, administration, secrets, usage, metrics),
)


def routers(services: Services, *, frame_limit: int) -> list[APIRouter]:
    return [*(each.routes(services) for each in _MODULES), websocket.routes(services, frame_limit=frame_limit)]
