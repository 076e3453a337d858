"""/stream-test: a whole conversation in, the answer out as NDJSON; one request and nothing to set up."""

from contextlib import ExitStack
from typing import Annotated

from fastapi import APIRouter, Body, Query
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from stellwerk.api import examples, openapi, refusals
from stellwerk.api.conversation import Text
from stellwerk.api.credentials import Running, on_behalf
from stellwerk.api.openapi import may
from stellwerk.api.services import Services
from stellwerk.api.sessions import Closed, few_fields
from stellwerk.api.streaming import NDJSON, WHOLE, ProfileWish
from stellwerk.api.telling import Told
from stellwerk.api.translation import Live, Name, TranslatedReader, chosen
from stellwerk.errors import InvalidField, StellwerkError
from stellwerk.runs.commands import Input
from stellwerk.spec.chat import ChatMessage
from stellwerk.tenants.audited import about, unrecorded
from stellwerk.tenants.principals import Principal

SESSION = "Stellwerk-Session"
"""The header that says where the conversation is kept."""
_LONGEST = 500


class SpokenMessage(ChatMessage):
    content: Text


class StreamAgentRequest(Closed):
    agent_system_id: Annotated[str, Field(min_length=1, max_length=64)] = "demo"
    messages: Annotated[
        list[Annotated[SpokenMessage, BeforeValidator(few_fields)]],
        Field(min_length=1, max_length=_LONGEST, description="the last one is the user's, and is answered"),
    ]


_REQUEST = Body(
    openapi_examples={
        "question": {"summary": "one question", "value": {"messages": [{"role": "user", "content": "weather"}]}},
        "conversation": {
            "summary": "with what was said before",
            "value": {
                "agent_system_id": "demo",
                "messages": [
                    {"role": "user", "content": "Hello"},
                    {"role": "assistant", "content": "Hello. What would you like to know?"},
                    {"role": "user", "content": "table"},
                ],
            },
        },
    }
)
_STREAM = {
    "description": "Lines of the dialect; the id of the session is in the header Stellwerk-Session",
    "headers": {SESSION: {"schema": {"type": "string"}, "description": "where the conversation is kept"}},
    "content": {
        NDJSON.media_type: openapi.lines(openapi.dialect_line(), chunks=examples.CHUNKS, events=examples.EVENTS)
    },
}
_REFUSED = (*refusals.BODY, refusals.NO_SYSTEM, *refusals.UNUSABLE, refusals.OVERLOADED, *refusals.STORED)


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["one request"], default_response_class=Response)

    @router.post(
        "/stream-test",
        summary="Ask an agent system, and read its answer as it comes, as NDJSON",
        responses={200: _STREAM, **may(*_REFUSED)},
    )
    async def stream_test(
        who: Running,
        body: Annotated[StreamAgentRequest, _REQUEST],
        dialect: Annotated[Name, Query(description="how the lines look")] = "chunks",
        live: Live = False,
        profile: ProfileWish = "user",
    ) -> Response:
        """It begins a session of its own, which stays. The stream ends with the run; leaving does not stop it."""
        spoken = chosen(dialect, live=live)
        with ExitStack() as held:  # first the place: what nobody may read is not begun
            held.enter_context(services.quotas.stream(who.tenant))
            session_id, after = await _begun(services, who, body)
            place = held.pop_all()
        reader = TranslatedReader(services, who, Told(session_id, spoken, profile))
        answer = reader.answer(after=(after, WHOLE), head=after, until_run_end=True, place=place)
        answer.headers[SESSION] = session_id
        return answer

    return router


async def _begun(services: Services, who: Principal, body: StreamAgentRequest) -> tuple[str, int]:
    """A new session whose first run is under way, and the cursor that shows the run whole."""
    *earlier, last = body.messages
    if last.role != "user" or not last.content.strip():
        raise InvalidField("messages: the last one must be the user's, and say something", field="messages")
    with unrecorded():  # what counts is that its first message is accepted
        session = await services.sessions.begin(who.tenant, body.agent_system_id, on_behalf(who, None))
    about(made=session.id)
    try:
        accepted = await services.sessions.send(who.tenant, session.id, Input(text=last.content, earlier=earlier))
    except StellwerkError:
        with unrecorded():
            await services.sessions.delete(who.tenant, session.id)  # a client that tries again sends all of it again
        raise
    return session.id, accepted.after
