"""/sessions/{sid}/messages, answers, regenerate, stop: what is said to a session.

The WebSocket does the same by the same functions.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from stellwerk.api.http.auth import RequireRun
from stellwerk.api.schema import openapi
from stellwerk.api.schema.openapi import BODY, BUSY, STORED, documented_router, returns
from stellwerk.api.schema.shared import (
    IdempotencyKey,
    Json,
    NewAnswer,
    NewMessage,
    RegenerateOptions,
    SessionId,
    StopOptions,
)
from stellwerk.api.services import Services
from stellwerk.runs.commands import Accepted, Stopped, Withdrawn

REPLACING = ("unknown_run", "already_replaced", "state_gone")
EnqueuedId = Annotated[str, Path(description="the id of an enqueued message", max_length=200)]


def routes(services: Services) -> APIRouter:
    router = documented_router("conversation", "/sessions/{sid}")
    sessions = services.sessions

    @router.post("/messages", **_accepts("interrupted", *BODY, *BUSY, "unknown_file", "message_id_used", *REPLACING))
    async def send(who: RequireRun, sid: SessionId, body: NewMessage, key: IdempotencyKey = None) -> Response:
        """Send a message; it starts the next round.

        `after` in the response is the cursor that shows the run whole. While one question is open, a message is its
        answer. If it interrupts a round, enqueued messages are withdrawn; `withdrawn` has their texts and files.
        Of an enqueued message, `queued_run_id` is the run that it will start.
        `input`, `config` and `context` are for graphs; `GET /agent-systems/{id}` has the schemas. They are stored with
        the message, and apply to all runs that it leads to.

        With `after_seconds` or `start_at`, the message is accepted now, and its run starts then; until then the
        session is `running` with a `start_at`, and a stop withdraws the run. The end of each run of the message is
        reported to `webhook`.

        With `replaces`, the message takes the place of the one that this run answers: that round and all later ones are
        replaced, and the agent continues from the state before them. It cannot wait (`if_busy: enqueue`).
        """
        services.webhooks.check(who.tenant, body.webhook)
        sending = sessions.send(
            who.tenant,
            sid,
            body.checked_text(),
            documents=body.documents,
            parameters=body.parameters(who),
            if_busy=body.if_busy,
            key=key,
            run=body.run_options(services.clock.now()),
            message_id=body.message_id,
            replaces=body.replaces,
        )
        return Json(await sending, 202)

    @router.post("/answers", **_accepts("answered", *BODY, *openapi.UNASKED, "unknown_file"))
    async def answer(who: RequireRun, sid: SessionId, body: NewAnswer, key: IdempotencyKey = None) -> Response:
        """Answer a question; the round continues.

        If several questions are open, each answer is stored (`noted`), and the round continues with the last.
        """
        answering = sessions.answer(who.tenant, sid, body.to_payload(), documents=body.documents, key=key)
        return Json(await answering, 202)

    @router.post("/regenerate", **_accepts("", *BODY, *BUSY, "nothing_said", "invalid_idempotency_key", *REPLACING))
    async def regenerate(
        who: RequireRun, sid: SessionId, body: RegenerateOptions | None = None, key: IdempotencyKey = None
    ) -> Response:
        """Regenerate the answer to the last message, or to that of `run_id`.

        A new round replaces that one and all later ones.
        """
        chosen = body or RegenerateOptions()
        regenerating = sessions.regenerate(who.tenant, sid, run_id=chosen.run_id, if_busy=chosen.if_busy, key=key)
        return Json(await regenerating, 202)

    stopped = returns(200, Stopped, "No run is active", *BODY, "unknown_session", *STORED)

    @router.post("/stop", **stopped)
    async def stop(who: RequireRun, sid: SessionId, body: StopOptions | None = None) -> Response:
        """Stop the current run, if there is one.

        When the response arrives, the run has ended for all readers, and no other starts. Enqueued messages are
        withdrawn; `withdrawn` has their texts and files, so that they can be sent again.
        """
        reason = body.clean_reason() if body else None
        return Json(await sessions.stop(who.tenant, sid, reason=reason))

    taken_back = returns(200, Withdrawn, "Withdrawn", "unknown_session", "unknown_message", "not_waiting", *STORED)

    @router.delete("/inbox/{message_id:path}", **taken_back)
    async def withdraw(who: RequireRun, sid: SessionId, message_id: EnqueuedId) -> Response:
        """Withdraw an enqueued message, before its round starts.

        The response has its text and files, so that it can be edited and sent again, with a new id.
        """
        return Json(await sessions.withdraw(who.tenant, sid, message_id=message_id))

    return router


def _accepts(example: str, *problems: str) -> openapi.Described:
    always = ("unknown_session", "key_reused", *openapi.UNUSABLE, "overloaded", *STORED)
    return returns(202, Accepted, "It is in the log", *problems, *always, example=example)
