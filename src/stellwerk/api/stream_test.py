"""/stream-test: a whole conversation in, the answer out as NDJSON; one request and nothing to set up."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.api.sessions import Body, Text, may
from stellwerk.api.streaming import WHOLE, EventStream
from stellwerk.api.telling import Told
from stellwerk.api.translation import HEARTBEAT, Live, Name, TranslatedReader, chosen
from stellwerk.dialects.native import Profile
from stellwerk.errors import InvalidField, Overloaded
from stellwerk.spec.chat import ChatMessage

SESSION = "Stellwerk-Session"
"""The header that says where the conversation is kept."""
_LONGEST = 500


class SpokenMessage(ChatMessage):
    content: Text


class StreamAgentRequest(Body):
    agent_system_id: Annotated[str, Field(min_length=1, max_length=64)] = "demo"
    messages: Annotated[
        list[SpokenMessage],
        Field(min_length=1, max_length=_LONGEST, examples=[[{"role": "user", "content": "weather"}]]),
    ]


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["streams"])

    @router.post(
        "/stream-test",
        summary="Ask an agent system, and read its answer as it comes, as NDJSON",
        responses={200: {"content": {"application/x-ndjson": {}}}, **may(400, 404, 422, 429, 507)},
    )
    async def stream_test(
        body: StreamAgentRequest, dialect: Name = "chunks", live: Live = False, profile: Profile = "user"
    ) -> Response:
        spoken = chosen(dialect, live=live)
        session_id, after = await _begun(services, body)
        reader = TranslatedReader(services, Told(session_id, spoken, profile))
        lines = reader.stream(after=(after, WHOLE), until_run_end=True)
        answer = EventStream(lines, spoken.media_type, HEARTBEAT)
        answer.headers[SESSION] = session_id
        return answer

    return router


async def _begun(services: Services, body: StreamAgentRequest) -> tuple[str, int]:
    """A new session whose first run is under way, and the cursor that shows the run whole."""
    *earlier, last = body.messages
    if last.role != "user" or not last.content.strip():
        raise InvalidField("messages: the last one must be the user's, and say something", field="messages")
    session = await services.sessions.begin(LOCAL_TENANT, body.agent_system_id, None)
    try:
        accepted = await services.sessions.send(LOCAL_TENANT, session.id, last.content, earlier=earlier)
    except Overloaded:
        await services.sessions.delete(LOCAL_TENANT, session.id)  # whoever comes back brings all of it again
        raise
    return session.id, accepted.after
