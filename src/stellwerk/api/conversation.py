"""/sessions/{sid}/messages, answers, regenerate, stop: what is said to a session.

The WebSocket does the same by the same functions.
"""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header
from pydantic import FailFast, Field, StringConstraints
from starlette.responses import Response

from stellwerk.api import examples, refusals
from stellwerk.api.answers import Json
from stellwerk.api.credentials import Running
from stellwerk.api.openapi import Responses, may, says
from stellwerk.api.problems import Problem
from stellwerk.api.services import Services
from stellwerk.api.sessions import Closed, Sid
from stellwerk.envelope.canonical import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.envelope.payloads import Answered
from stellwerk.errors import InvalidField
from stellwerk.runs.commands import Accepted, IfBusy, Input, Stopped
from stellwerk.tenants.principals import Principal

TEXT_LIMIT = 64 * 1024
"""Characters: at four bytes each they still fit into one event."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=TEXT_LIMIT)]
Documents = Annotated[
    tuple[Annotated[str, Field(max_length=200)], ...],
    FailFast(),
    Field(max_length=50, description="ids of uploaded files that go with it"),
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="the same request with the same key is done once, however often it is sent",
    ),
]


class NewMessage(Closed):
    text: Annotated[
        str, Field(max_length=TEXT_LIMIT, description="may be empty if files go with it", examples=["weather"])
    ] = ""
    documents: Documents = ()
    if_busy: Annotated[
        IfBusy,
        Field(description="while another round is under way: refuse this, do it afterwards, or stop that one"),
    ] = "reject"


class NewAnswer(Closed):
    ask_id: Annotated[str, Field(max_length=200, description="which question, if several are open")] = ""
    text: Annotated[Text | None, Field(examples=["blue"])] = None
    data: Annotated[Any, Field(description="instead of text, for a question with a schema")] = None
    refused: Annotated[bool, Field(description="there will be no answer")] = False
    documents: Documents = ()


class StopWish(Closed):
    reason: Annotated[str | None, Field(max_length=500, examples=["I have seen enough"])] = None


_MESSAGE = Body(
    openapi_examples={
        "plain": {"summary": "a message", "value": {"text": "weather"}},
        "patient": {"summary": "one that may wait", "value": {"text": "table", "if_busy": "enqueue"}},
        "urgent": {"summary": "one that interrupts", "value": {"text": "weather", "if_busy": "interrupt"}},
    }
)
_ANSWER = Body(openapi_examples={"text": {"summary": "to the only open question", "value": {"text": "blue"}}})
_STOP = Body(openapi_examples={"reason": {"summary": "with a reason", "value": {"reason": "I have seen enough"}}})


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/sessions/{sid}", tags=["conversation"], default_response_class=Response)
    _add_rounds(router, services)
    _add_stop(router, services)
    return router


def _add_rounds(router: APIRouter, services: Services) -> None:
    accepting = partial(router.post, status_code=202)

    @accepting(
        "/messages",
        summary="Send a message; it starts the next round",
        responses=_accepted(examples.INTERRUPTED, *refusals.BODY, *refusals.BUSY, refusals.NO_FILE),
    )
    async def send(who: Running, sid: Sid, body: Annotated[NewMessage, _MESSAGE], key: Key = None) -> Response:
        """`after` in the answer is the cursor that shows the run whole. While one question is open, a message is its
        answer. If it interrupts a round, enqueued messages are withdrawn; `withdrawn` has their texts and files."""
        return Json(await sent(services, who, sid, body, key), 202)

    @accepting(
        "/answers",
        summary="Answer a question; the round goes on",
        responses=_accepted(examples.ANSWERED, *refusals.BODY, *refusals.UNASKED, refusals.NO_FILE),
    )
    async def answer(who: Running, sid: Sid, body: Annotated[NewAnswer, _ANSWER], key: Key = None) -> Response:
        """If several questions are open, each answer is kept (`noted`), and the round goes on with the last."""
        return Json(await answered(services, who, sid, body, key), 202)

    @accepting(
        "/regenerate",
        summary="Answer the last message once more",
        responses=_accepted(examples.ACCEPTED, *refusals.BUSY, refusals.NOTHING_SAID, refusals.KEY_TOO_LONG),
    )
    async def regenerate(who: Running, sid: Sid, key: Key = None) -> Response:
        """A new round takes the place of the last."""
        return Json(await services.sessions.regenerate(who.tenant, sid, key=key), 202)


def _add_stop(router: APIRouter, services: Services) -> None:
    @router.post(
        "/stop",
        summary="Stop what is under way; nothing happens if nothing is",
        responses={
            200: says(Stopped, examples.STOPPED, "Nothing is under way any more"),
            **may(*refusals.BODY, refusals.NO_SESSION, *refusals.STORED),
        },
    )
    async def stop(who: Running, sid: Sid, body: Annotated[StopWish | None, _STOP] = None) -> Response:
        """When the answer comes, the run is over for everybody, and nothing starts by itself. Enqueued messages are
        withdrawn; `withdrawn` has their texts and files, so that they can be sent again."""
        return Json(await stopped(services, who, sid, body or StopWish()))


def _accepted(example: Accepted, *problems: Problem) -> Responses:
    always = (refusals.NO_SESSION, refusals.KEY_REUSED, *refusals.UNUSABLE, refusals.OVERLOADED, *refusals.STORED)
    return {202: says(Accepted, example, "It is in the log"), **may(*problems, *always)}


async def sent(services: Services, who: Principal, sid: str, body: NewMessage, key: str | None) -> Accepted:
    text = body.text if body.text.strip() else ""
    if not text and not body.documents:
        raise InvalidField("text: this must not be empty, unless files go with it", field="text")
    said = Input(text=text, documents=body.documents, if_busy=body.if_busy)
    return await services.sessions.send(who.tenant, sid, said, key=key)


async def answered(services: Services, who: Principal, sid: str, body: NewAnswer, key: str | None) -> Accepted:
    text = None if body.text is None else clean_text(body.text)
    data = canonical(body.data, depth=PAYLOAD_DEPTH).value
    given = Answered(ask_id=body.ask_id, text=text, data=data, refused=body.refused)
    return await services.sessions.answer(who.tenant, sid, given, documents=body.documents, key=key)


async def stopped(services: Services, who: Principal, sid: str, body: StopWish) -> Stopped:
    return await services.sessions.stop(who.tenant, sid, reason=clean_text(body.reason) if body.reason else None)
