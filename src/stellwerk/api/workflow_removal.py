"""/api/workflows/{workflow_id}/messages/{message_id}: take back a message, or a file of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from stellwerk.api import refusals, workflow_answers
from stellwerk.api.answers import Json
from stellwerk.api.credentials import Running
from stellwerk.api.openapi import says
from stellwerk.api.services import Services
from stellwerk.api.workflow_answers import Removed
from stellwerk.api.workflow_routes import MessageId, WorkflowId, WorkflowRoute, may
from stellwerk.api.workflows import PATH, TAG

FileNumber = Annotated[str, Path(max_length=64, description="`fileId`, or the id of the document", examples=["7"])]
_REFUSED = (refusals.BAD_INPUT, refusals.NO_WORKFLOW, refusals.NO_MESSAGE)
_ALWAYS = (refusals.AT_WORK, *refusals.UNUSABLE, *refusals.STORED)


def routes(services: Services) -> APIRouter:
    prefix = f"{PATH}/{{workflow_id}}/messages/{{message_id}}"
    router = APIRouter(prefix=prefix, tags=[TAG], default_response_class=Response, route_class=WorkflowRoute)

    @router.delete(
        "",
        summary="Delete a message; the agent forgets it, too",
        responses={
            200: says(Removed, Removed(id=workflow_answers.MESSAGE_ID), "Gone, with its files"),
            **may(*_REFUSED, *_ALWAYS),
        },
    )
    async def delete_message(who: Running, workflow_id: WorkflowId, message_id: MessageId) -> Response:
        """The log keeps that there was something, and that it was removed. Not while the workflow works: 409."""
        with _forgetting(services, workflow_id):
            await services.workflows.removals.message(who.tenant, workflow_id, message_id)
        return Json(Removed(id=message_id))

    @router.delete(
        "/files/{file_id}",
        summary="Remove a file from a message",
        responses={
            200: says(Removed, Removed(id="7"), "The message lacks it; its bytes go with the last message that has it"),
            **may(*_REFUSED, refusals.NO_FILE, *_ALWAYS),
        },
    )
    async def delete_file(
        who: Running, workflow_id: WorkflowId, message_id: MessageId, file_id: FileNumber
    ) -> Response:
        document_id = file_id.removeprefix("doc_")
        if file_id.isascii() and file_id.isdigit() and len(file_id) < 16:
            document_id = (await services.numbers.documents(who.tenant, [int(file_id)])).get(int(file_id), file_id)
        with _forgetting(services, workflow_id):
            await services.workflows.removals.file(who.tenant, workflow_id, message_id, document_id)
        return Json(Removed(id=file_id))

    return router


@contextmanager
def _forgetting(services: Services, workflow_id: str) -> Iterator[None]:
    """What was made of the old log for its readers; also if it was rewritten, and something went wrong after that."""
    try:
        yield
    finally:
        services.workflows.bodies.forget(workflow_id)
        services.shared.forget(workflow_id)
        services.tellings.forget(workflow_id)
