"""/api/workflows: start, stop, list, read and delete workflows; erase their messages and files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Body, Path, Query
from pydantic import (
    AliasGenerator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response

from stellwerk.api.http.auth import RequireRead, RequireRun, on_behalf
from stellwerk.api.http.etags import answered, tag_of, unchanged
from stellwerk.api.schema.openapi import STORED, UNASKED, UNUSABLE
from stellwerk.api.schema.requests import Limit, RequestBody, Text
from stellwerk.api.schema.responses import Json, address, file_address
from stellwerk.api.services import Services
from stellwerk.errors import InvalidField
from stellwerk.tenants.principals import Principal
from stellwerk.tenants.tenants import TenantInfo
from stellwerk.workflows.erasure import ErasureRequest
from stellwerk.workflows.message_documents import WorkflowDocument, filename
from stellwerk.workflows.routes.schema import (
    PATH,
    MessageId,
    Removed,
    WorkflowId,
    WorkflowInfo,
    WorkflowMessage,
    WorkflowStopped,
    returns,
    returns_polled,
    whole_workflow,
    with_documents,
    workflow_router,
)
from stellwerk.workflows.service import Started, StartRequest, WorkflowHead, Workflows, is_file_number
from stellwerk.workflows.views.workflow import FileReference, MessageView


async def message_responses(
    workflows: Workflows, who: Principal, request: Request, messages: Sequence[MessageView]
) -> tuple[tuple[WorkflowMessage, ...], bool]:
    """The messages with their documents, and whether that is final."""
    files = [file for message in messages for file in message.documents]
    documents: dict[FileReference, WorkflowDocument] = {}
    is_final = True
    if files:
        documents, is_final = await workflows.documents.shown(
            who.tenant, files, lambda file: file_address(request, file.document_id, filename(file))
        )
    return tuple(with_documents(message, documents) for message in messages), is_final


_LARGEST = 10**15
SystemName = Annotated[str | None, Field(min_length=1, max_length=64, examples=["demo"])]


def _named(file: object, check: ValidatorFunctionWrapHandler) -> int | str:
    """Report a value that is neither a number nor an id as one error instead of two."""
    try:
        named: int | str = check(file)
    except ValidationError as error:
        raise PydanticCustomError("file", "each of these must be the `fileId` or the `id` of a file") from error
    return named


Number = Annotated[int, Field(strict=True, ge=1, le=_LARGEST)]
File = Annotated[Number | Annotated[str, Field(min_length=1, max_length=64)], WrapValidator(_named)]


class UserInputRequest(RequestBody):
    """What is to be done, and with what."""

    model_config = ConfigDict(extra="forbid", alias_generator=AliasGenerator(to_camel))

    prompt: Annotated[Text, Field(examples=["What is in this table?"])]
    list_file_id: Annotated[
        tuple[File, ...],
        FailFast(),
        Field(max_length=50, description="files that were uploaded before: `fileId` or `id` of each"),
    ] = ()
    agent_system_id: Annotated[SystemName, Field(description="who does it; of a new workflow only")] = None
    user_id: Annotated[
        int | None, Field(ge=0, lt=_LARGEST, description="a number of yours; it is shown and grants nothing")
    ] = None
    mandate_id: Annotated[int | None, Field(description="your own, or nothing")] = None


_START = Body(
    openapi_examples={
        "new": {"summary": "a prompt", "value": {"prompt": "table", "agentSystemId": "demo"}},
        "labelled": {"summary": "by a user with a number", "value": {"prompt": "weather", "userId": 12}},
    }
)
FileNumber = Annotated[str, Path(max_length=64, description="`fileId`, or the id of the document", examples=["7"])]
_MESSAGE = "/{workflow_id}/messages/{message_id}"
_START_PROBLEMS = (
    *("malformed_json", "invalid_field", "too_large", "unknown_workflow", "unknown_file", "unknown_agent_system"),
    *("workflow_running", "question_open", *UNASKED, *UNUSABLE, "overloaded", *STORED),
)
_NOT_ERASED = ("invalid_field", "unknown_workflow", "unknown_message")
_NOT_NOW = ("erasure_running", *UNUSABLE, *STORED)


def routes(services: Services, workflows: Workflows) -> APIRouter:
    router = workflow_router()
    _add_commands(router, services, workflows)
    _add_reads(router, workflows)
    _add_erasure(router, services, workflows)
    return router


def _add_commands(router: APIRouter, services: Services, workflows: Workflows) -> None:
    @router.post("/start", **returns(Started, "It is in the log, and will end visibly", *_START_PROBLEMS))
    async def start(
        who: RequireRun,
        body: Annotated[UserInputRequest, _START],
        id: Annotated[str | None, Query(max_length=64, description="of the workflow to go on with")] = None,
        agent_system_id: Annotated[
            SystemName, Query(alias="agentSystemId", description="as in the body; in one of them, or the same in both")
        ] = None,
    ) -> Response:
        """Start a workflow; with `id`, go on with one.

        A workflow that waits takes the prompt as its answer. While it works it takes none: 409.
        """
        started = _start_request(body, id, agent_system_id)
        user = _user_of(body, who, services.credentials.tenants.find(who.tenant))
        return Json(await workflows.start(who.tenant, replace(started, user=user)))

    @router.post(
        "/{workflow_id}/stop",
        **returns(WorkflowStopped, "Nothing of it is under way any more", "unknown_workflow", *STORED),
    )
    async def stop(who: RequireRun, workflow_id: WorkflowId) -> Response:
        """Stop a workflow; nothing happens if it is over."""
        await workflows.cache.of(who.tenant, workflow_id)
        stopped = await services.sessions.stop(who.tenant, workflow_id)
        return Json({"id": workflow_id, "status": stopped.status})

    @router.delete(
        "/{workflow_id}", **returns(Removed, "Gone; its id is never used again", "unknown_workflow", *STORED)
    )
    async def delete(who: RequireRun, workflow_id: WorkflowId) -> Response:
        """Delete a workflow and all that belongs to it, for good.

        Files that were uploaded for it and are used nowhere else go with it.
        """
        await workflows.delete(who.tenant, workflow_id)
        return Json(Removed(id=workflow_id))


def _add_reads(router: APIRouter, workflows: Workflows) -> None:
    @router.get("", **returns_polled(WorkflowHead, "A page, without messages and logs", "invalid_field", listed=True))
    async def list_workflows(
        who: RequireRead,
        request: Request,
        before: Annotated[str | None, Query(description="the id of the last one seen")] = None,
        limit: Limit = 50,
        chats: Annotated[bool, Query(description="also sessions that were not started as workflows")] = True,
    ) -> Response:
        """List workflows, newest first."""
        found = await workflows.listed(who.tenant, before=before, limit=limit + 1, chats=chats)
        shown = found[:limit]
        filters = {} if chats else {"chats": "false"}
        query = urlencode({"before": shown[-1].id, "limit": limit, **filters}) if len(found) > limit else None
        body, link = msgspec.json.encode(shown), query and f"{address(request, PATH)}?{query}"
        tag = tag_of(blake2b(body, digest_size=12).hexdigest(), len(found))
        return unchanged(request, tag) or answered(body, tag, link)

    @router.get("/{workflow_id}", **returns_polled(WorkflowInfo, "Its current state", "unknown_workflow"))
    async def find(who: RequireRead, request: Request, workflow_id: WorkflowId) -> Response:
        """A workflow, whole: messages, logs, figures."""
        found = await workflows.cache.of(who.tenant, workflow_id)
        figures = (len(found.removed), len(found.logs), found.changes, found.figures.tokens_used)
        tag = tag_of(*figures, found.status, found.awaiting_user_input)
        if (known := unchanged(request, tag)) is not None:
            return known
        whole = whole_workflow(found)
        messages, is_final = await message_responses(workflows, who, request, list(found.messages))
        return answered(msgspec.json.encode(whole(messages=messages)), tag if is_final else None)


def _add_erasure(router: APIRouter, services: Services, workflows: Workflows) -> None:
    @router.delete(_MESSAGE, **returns(Removed, "Gone, with its files", *_NOT_ERASED, *_NOT_NOW, example="message"))
    async def delete_message(who: RequireRun, workflow_id: WorkflowId, message_id: MessageId) -> Response:
        """Delete a message; the agent forgets it, too.

        Removes the message, its files and its copies in checkpoints. The log records the removal.

        What agents said or wrote about it afterwards stays: delete the workflow to remove all of it.
        409 while the workflow is running.
        """
        with _forgetting(services, workflow_id):
            await workflows.eraser.erase(ErasureRequest(who.tenant, workflow_id, message_id))
        return Json(Removed(id=message_id))

    @router.delete(
        f"{_MESSAGE}/files/{{file_id}}",
        **returns(
            Removed,
            "The message lacks it; its bytes go with the last message that has it",
            *(*_NOT_ERASED, "unknown_file", *_NOT_NOW),
            example="file",
        ),
    )
    async def delete_file(
        who: RequireRun, workflow_id: WorkflowId, message_id: MessageId, file_id: FileNumber
    ) -> Response:
        """Remove a file from a message.

        Removes the file from the message and from checkpoints. What tools read out of it stays in their results.
        """
        document_id = file_id.removeprefix("doc_")
        if is_file_number(file_id):
            document_id = (await services.numbers.documents(who.tenant, [int(file_id)])).get(int(file_id), file_id)
        with _forgetting(services, workflow_id):
            await workflows.eraser.erase(ErasureRequest(who.tenant, workflow_id, message_id, document_id))
        return Json(Removed(id=file_id))


@contextmanager
def _forgetting(services: Services, workflow_id: str) -> Iterator[None]:
    """Drop cached translations, also if something fails after the log was rewritten."""
    try:
        yield
    finally:
        services.streams.forget(workflow_id)


def _start_request(body: UserInputRequest, workflow_id: str | None, system: str | None) -> StartRequest:
    if not body.prompt.strip():
        raise InvalidField("prompt: this must not be empty", field="prompt")
    if workflow_id == "":
        raise InvalidField("id: this is empty; leave it out for a new workflow", field="id")
    if system is not None and body.agent_system_id not in (None, system):
        conflict = f"agentSystemId: it is {body.agent_system_id!r} in the body and {system!r} in the query; send one"
        raise InvalidField(conflict, field="agentSystemId")
    return StartRequest(
        prompt=body.prompt,
        files=body.list_file_id,
        workflow_id=workflow_id,
        system=body.agent_system_id or system,
    )


def _user_of(body: UserInputRequest, who: Principal, tenant: TenantInfo | None) -> str | None:
    """The user of the workflow: a user with their own key or token cannot name another."""
    mandate = 0 if tenant is None else tenant.number
    if body.mandate_id not in (None, mandate):
        raise InvalidField(f"mandateId: yours is {mandate}; send that, or leave it out", field="mandateId")
    return on_behalf(who, None if body.user_id is None else str(body.user_id))
