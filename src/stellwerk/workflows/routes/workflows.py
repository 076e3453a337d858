"""/api/workflows: start, stop, list, read and delete workflows; erase their messages and files."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated
from urllib.parse import urlencode

import msgspec
import pydantic
from fastapi import APIRouter, Body, Path, Query
from pydantic import Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response

from stellwerk.api.http import etags
from stellwerk.api.http.auth import RequireRead, RequireRun, on_behalf
from stellwerk.api.schema.openapi import STORED, UNASKED, UNUSABLE
from stellwerk.api.schema.shared import Json, Limit, RequestBody, Text, address, file_address
from stellwerk.errors import InvalidField
from stellwerk.tenants.principals import Principal
from stellwerk.workflows.erasure import ErasureRequest
from stellwerk.workflows.message_documents import filename
from stellwerk.workflows.routes import schema
from stellwerk.workflows.service import Started, StartRequest, WorkflowHead, Workflows
from stellwerk.workflows.views.workflow import MessageView, iso


async def with_documents(
    workflows: Workflows, tenant: str, request: Request, messages: Sequence[MessageView]
) -> tuple[tuple[schema.WorkflowMessage, ...], bool]:
    """The messages with their documents, and whether that is final."""
    files = [file for message in messages for file in message.documents]
    documents, is_final = await workflows.documents.shown(
        tenant, files, lambda file: file_address(request, file.document_id, filename(file))
    )
    shown = list[schema.WorkflowMessage]()
    for message in messages:
        own = tuple(documents[file] for file in message.documents)
        shown.append(schema.WorkflowMessage(**{**msgspec.structs.asdict(message), "documents": own}))
    return tuple(shown), is_final


_LARGEST = 10**15
SystemName = Annotated[str | None, Field(min_length=1, max_length=64, examples=["demo"])]


def _named(file: object, check: pydantic.ValidatorFunctionWrapHandler) -> int | str:
    """Report a value that is neither a number nor an id as one error instead of two."""
    try:
        named: int | str = check(file)
    except pydantic.ValidationError as error:
        wanted = "each of these must be the `fileId` or the `id` of a file"
        raise PydanticCustomError("file", wanted) from error
    return named


Number = Annotated[int, Field(strict=True, ge=1, le=_LARGEST)]
Id = Annotated[str, Field(min_length=1, max_length=64)]
File = Annotated[Number | Id, pydantic.WrapValidator(_named)]


class UserInputRequest(RequestBody):
    """What is to be done, and with what."""

    model_config = pydantic.ConfigDict(extra="forbid", alias_generator=to_camel)

    prompt: Annotated[Text, Field(examples=["What is in this table?"])]
    list_file_id: Annotated[
        tuple[File, ...],
        pydantic.FailFast(),
        Field(max_length=50, description="files that were uploaded before: `fileId` or `id` of each"),
    ] = ()
    agent_system_id: Annotated[SystemName, Field(description="who does it; of a new workflow only")] = None
    user_id: Annotated[
        int | None,
        Field(ge=0, lt=_LARGEST, description="a number of yours; it is shown and grants nothing"),
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
    *("malformed_json", "invalid_field", "too_large"),
    *("unknown_workflow", "unknown_file", "unknown_agent_system"),
    *("workflow_running", "question_open", *UNASKED, *UNUSABLE, "overloaded", *STORED),
)
_NOT_ERASED = ("invalid_field", "unknown_workflow", "unknown_message")
_NOT_NOW = ("erasure_running", *UNUSABLE, *STORED)


def routes(workflows: Workflows) -> APIRouter:
    router = schema.workflow_router()
    _add_commands(router, workflows)
    _add_reads(router, workflows)
    _add_erasure(router, workflows)
    return router


def _add_commands(router: APIRouter, workflows: Workflows) -> None:
    @router.post("/start", **schema.returns(Started, "It is in the log, and will end visibly", *_START_PROBLEMS))
    async def start(
        who: RequireRun,
        body: Annotated[UserInputRequest, _START],
        id: Annotated[str | None, Query(max_length=64, description="of the workflow to go on with")] = None,
        agent_system_id: Annotated[
            SystemName,
            Query(alias="agentSystemId", description="as in the body; in one of them, or the same in both"),
        ] = None,
    ) -> Response:
        """Start a workflow; with `id`, go on with one.

        A workflow that waits takes the prompt as its answer. While it works it takes none: 409.
        """
        if not body.prompt.strip():
            raise InvalidField("prompt: this must not be empty", field="prompt")
        if id == "":
            raise InvalidField("id: this is empty; leave it out for a new workflow", field="id")
        _check_mandate(workflows, who, body.mandate_id)
        request = StartRequest(
            prompt=body.prompt,
            files=body.list_file_id,
            workflow_id=id,
            system=_chosen_system(body, agent_system_id),
            user=on_behalf(who, None if body.user_id is None else str(body.user_id)),
        )
        return Json(await workflows.start(who.tenant, request))

    @router.post(
        "/{workflow_id}/stop",
        **schema.returns(schema.WorkflowStopped, "Nothing of it is under way any more", "unknown_workflow", *STORED),
    )
    async def stop(who: RequireRun, workflow_id: schema.WorkflowId) -> Response:
        """Stop a workflow; nothing happens if it is over."""
        await workflows.cache.of(who.tenant, workflow_id)
        stopped = await workflows.services.sessions.stop(who.tenant, workflow_id)
        return Json({"id": workflow_id, "status": stopped.status})

    @router.delete(
        "/{workflow_id}",
        **schema.returns(schema.Removed, "Gone; its id is never used again", "unknown_workflow", *STORED),
    )
    async def delete(who: RequireRun, workflow_id: schema.WorkflowId) -> Response:
        """Delete a workflow and all that belongs to it, for good.

        Files that were uploaded for it and are used nowhere else go with it.
        """
        await workflows.delete(who.tenant, workflow_id)
        return Json(schema.Removed(id=workflow_id))


def _add_reads(router: APIRouter, workflows: Workflows) -> None:
    @router.get(
        "", **schema.returns_polled(WorkflowHead, "A page, without messages and logs", "invalid_field", listed=True)
    )
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
        body, link = msgspec.json.encode(shown), query and f"{address(request, schema.PATH)}?{query}"
        tag = etags.tag_of(blake2b(body, digest_size=12).hexdigest(), len(found))
        return etags.unchanged(request, tag) or etags.answered(body, tag, link)

    @router.get("/{workflow_id}", **schema.returns_polled(schema.WorkflowInfo, "Its current state", "unknown_workflow"))
    async def find(who: RequireRead, request: Request, workflow_id: schema.WorkflowId) -> Response:
        """A workflow, whole: messages, logs, figures."""
        found = await workflows.cache.of(who.tenant, workflow_id)
        figures = (len(found.removed), len(found.logs), found.changes, found.figures.tokens_used)
        tag = etags.tag_of(*figures, found.status, found.awaiting_user_input)
        if (known := etags.unchanged(request, tag)) is not None:
            return known
        # Made first, because the workflow may change while documents are read.
        whole = schema.WorkflowInfo(
            id=found.id,
            mandate_id=found.mandate_id,
            user_id=found.user_id,
            name=found.name,
            started_at=iso(found.started_at),
            status=found.status or "running",
            last_activity=iso(found.last_activity),
            data_stats=found.figures,
            current_round=found.round,
            awaiting_user_input=found.awaiting_user_input,
            failed_tasks=found.failed_tasks,
            message_ids=tuple(message.id for message in found.messages),
            messages=(),
            logs=tuple(found.logs),
        )
        messages, is_final = await with_documents(workflows, who.tenant, request, list(found.messages))
        whole = msgspec.structs.replace(whole, messages=messages)
        return etags.answered(msgspec.json.encode(whole), tag if is_final else None)


def _add_erasure(router: APIRouter, workflows: Workflows) -> None:
    @router.delete(
        _MESSAGE, **schema.returns(schema.Removed, "Gone, with its files", *_NOT_ERASED, *_NOT_NOW, example="message")
    )
    async def delete_message(who: RequireRun, workflow_id: schema.WorkflowId, message_id: schema.MessageId) -> Response:
        """Delete a message; the agent forgets it, too.

        Removes the message, its files and its copies in checkpoints. The log records the removal.

        What agents said or wrote about it afterwards stays: delete the workflow to remove all of it.
        409 while the workflow is running.
        """
        await workflows.eraser.erase(ErasureRequest(who.tenant, workflow_id, message_id))
        return Json(schema.Removed(id=message_id))

    @router.delete(
        f"{_MESSAGE}/files/{{file_id}}",
        **schema.returns(
            schema.Removed,
            "The message lacks it; its bytes go with the last message that has it",
            *(*_NOT_ERASED, "unknown_file", *_NOT_NOW),
            example="file",
        ),
    )
    async def delete_file(
        who: RequireRun, workflow_id: schema.WorkflowId, message_id: schema.MessageId, file_id: FileNumber
    ) -> Response:
        """Remove a file from a message.

        Removes the file from the message and from checkpoints. What tools read out of it stays in their results.
        """
        (document_id,) = await workflows.document_ids(who.tenant, [file_id])
        await workflows.eraser.erase(ErasureRequest(who.tenant, workflow_id, message_id, document_id))
        return Json(schema.Removed(id=file_id))


def _check_mandate(workflows: Workflows, who: Principal, given: int | None) -> None:
    tenant = workflows.services.credentials.tenants.find(who.tenant)
    own = 0 if tenant is None else tenant.number
    if given not in (None, own):
        raise InvalidField(f"mandateId: yours is {own}; send that, or leave it out", field="mandateId")


def _chosen_system(body: UserInputRequest, system: str | None) -> str | None:
    if system is not None and body.agent_system_id not in (None, system):
        both = f"it is {body.agent_system_id!r} in the body and {system!r} in the query"
        raise InvalidField(f"agentSystemId: {both}; send one", field="agentSystemId")
    return body.agent_system_id or system
