"""/api/workflows: sessions for clients that start something, poll, and download what was made.

A workflow is a session under the same id: what is done here is seen there.
"""

from dataclasses import replace
from hashlib import blake2b
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Body, Query
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

from stellwerk.api import refusals, workflow_answers
from stellwerk.api.answers import Json, address
from stellwerk.api.conversation import Text
from stellwerk.api.credentials import Reading, Running, on_behalf
from stellwerk.api.openapi import lists, polled, says
from stellwerk.api.paging import Limit
from stellwerk.api.services import Services
from stellwerk.api.sessions import Closed
from stellwerk.api.workflow_answers import Removed, WorkflowStopped, WorkflowTold
from stellwerk.api.workflow_messages import told
from stellwerk.api.workflow_routes import WorkflowId, WorkflowRoute, answered, may, tag_of, unchanged
from stellwerk.errors import InvalidField
from stellwerk.tenants.principals import Principal
from stellwerk.tenants.tenants import Tenant
from stellwerk.workflows.listing import WorkflowHead
from stellwerk.workflows.starting import Started, Wish

PATH = "/api/workflows"
TAG = "workflows"
_LARGEST = 10**15
SystemWish = Annotated[str | None, Field(min_length=1, max_length=64, examples=["demo"])]


def _named(file: object, check: ValidatorFunctionWrapHandler) -> int | str:
    """What is neither a number nor an id is one mistake, not two."""
    try:
        named: int | str = check(file)
    except ValidationError as error:
        raise PydanticCustomError("file", "each of these must be the `fileId` or the `id` of a file") from error
    return named


Number = Annotated[int, Field(strict=True, ge=1, le=_LARGEST)]
File = Annotated[Number | Annotated[str, Field(min_length=1, max_length=64)], WrapValidator(_named)]


class UserInputRequest(Closed):
    """What is to be done, and with what."""

    model_config = ConfigDict(extra="forbid", alias_generator=AliasGenerator(to_camel))

    prompt: Annotated[Text, Field(examples=["What is in this table?"])]
    list_file_id: Annotated[
        tuple[File, ...],
        FailFast(),
        Field(max_length=50, description="files that were uploaded before: `fileId` or `id` of each"),
    ] = ()
    agent_system_id: Annotated[SystemWish, Field(description="who does it; of a new workflow only")] = None
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
_KNOWN = may(refusals.NO_WORKFLOW, refusals.GONE)


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix=PATH, tags=[TAG], default_response_class=Response, route_class=WorkflowRoute)
    _add_commands(router, services)
    _add_looking(router, services)
    return router


def _add_commands(router: APIRouter, services: Services) -> None:
    @router.post(
        "/start",
        summary="Start a workflow; with `id`, go on with one",
        responses={
            200: says(Started, workflow_answers.STARTED, "It is in the log, and will end visibly"),
            **may(
                *(refusals.NOT_JSON, refusals.BAD_INPUT, refusals.TOO_LARGE, refusals.NO_WORKFLOW),
                *(
                    refusals.NO_FILE,
                    refusals.NO_SYSTEM,
                    refusals.STILL_WORKING,
                    refusals.QUESTION_OPEN,
                    *refusals.UNASKED,
                ),
                *(*refusals.UNUSABLE, refusals.OVERLOADED, *refusals.STORED),
            ),
        },
    )
    async def start(
        who: Running,
        body: Annotated[UserInputRequest, _START],
        id: Annotated[str | None, Query(max_length=64, description="of the workflow to go on with")] = None,
        agent_system_id: Annotated[
            SystemWish, Query(alias="agentSystemId", description="as in the body; in one of them, or the same in both")
        ] = None,
    ) -> Response:
        """A workflow that waits takes the prompt as its answer. While it works it takes none: 409."""
        wish = _wish(body, id, agent_system_id)
        user = _user_of(body, who, services.credentials.tenants.find(who.tenant))
        return Json(await services.workflows.start(who.tenant, replace(wish, user=user)))

    @router.post(
        "/{workflow_id}/stop",
        summary="Stop a workflow; nothing happens if it is over",
        responses={
            200: says(WorkflowStopped, workflow_answers.STOPPED, "Nothing of it is under way any more"),
            **may(refusals.NO_WORKFLOW, *refusals.STORED),
        },
    )
    async def stop(who: Running, workflow_id: WorkflowId) -> Response:
        await services.workflows.folds.of(who.tenant, workflow_id)
        stopped = await services.sessions.stop(who.tenant, workflow_id)
        return Json({"id": workflow_id, "status": stopped.status})

    @router.delete(
        "/{workflow_id}",
        summary="Delete a workflow and all that belongs to it, for good",
        responses={
            200: says(Removed, Removed(id=workflow_answers.WORKFLOW_ID), "Gone; its id is never used again"),
            **may(refusals.NO_WORKFLOW, *refusals.STORED),
        },
    )
    async def delete(who: Running, workflow_id: WorkflowId) -> Response:
        """Files that were uploaded for it and are used nowhere else go with it."""
        await services.workflows.delete(who.tenant, workflow_id)
        return Json(Removed(id=workflow_id))


def _add_looking(router: APIRouter, services: Services) -> None:
    @router.get(
        "",
        summary="List workflows, newest first",
        responses={
            **polled(lists(WorkflowHead, workflow_answers.HEAD, "A page, without messages and logs")),
            **may(refusals.BAD_INPUT, refusals.GONE),
        },
    )
    async def list_workflows(
        who: Reading,
        request: Request,
        before: Annotated[str | None, Query(description="the id of the last one seen")] = None,
        limit: Limit = 50,
        chats: Annotated[bool, Query(description="also sessions that were not started as workflows")] = True,
    ) -> Response:
        found = await services.workflows.list(who.tenant, before=before, limit=limit + 1, chats=chats)
        shown = found[:limit]
        wish = {} if chats else {"chats": "false"}
        query = urlencode({"before": shown[-1].id, "limit": limit, **wish}) if len(found) > limit else None
        body, link = msgspec.json.encode(shown), query and f"{address(request, PATH)}?{query}"
        tag = tag_of(blake2b(body, digest_size=12).hexdigest(), len(found))
        return unchanged(request, tag) or answered(body, tag, link)

    @router.get(
        "/{workflow_id}",
        summary="A workflow, whole: messages, logs, figures",
        responses={**polled(says(WorkflowTold, workflow_answers.TOLD, "As it stands")), **_KNOWN},
    )
    async def find(who: Reading, request: Request, workflow_id: WorkflowId) -> Response:
        found = await services.workflows.folds.of(who.tenant, workflow_id)
        figures = (len(found.removed), len(found.logs), found.changes, found.figures.tokens_used)
        tag = tag_of(*figures, found.status, found.awaiting_user_input)
        if (known := unchanged(request, tag)) is not None:
            return known
        whole = workflow_answers.whole(found)
        messages, is_final = await told(services, who, request, list(found.messages))
        return answered(msgspec.json.encode(whole(messages=messages)), tag if is_final else None)


def _wish(body: UserInputRequest, workflow_id: str | None, system: str | None) -> Wish:
    if not body.prompt.strip():
        raise InvalidField("prompt: this must not be empty", field="prompt")
    if workflow_id == "":
        raise InvalidField("id: this is empty; leave it out for a new workflow", field="id")
    if system is not None and body.agent_system_id not in (None, system):
        told = f"agentSystemId: it is {body.agent_system_id!r} in the body and {system!r} in the query; send one"
        raise InvalidField(told, field="agentSystemId")
    return Wish(
        prompt=body.prompt,
        files=body.list_file_id,
        workflow_id=workflow_id,
        system=body.agent_system_id or system,
    )


def _user_of(body: UserInputRequest, who: Principal, tenant: Tenant | None) -> str | None:
    """The user that the workflow gets: a user with a key or token of their own cannot name another by a number."""
    mandate = 0 if tenant is None else tenant.number
    if body.mandate_id not in (None, mandate):
        raise InvalidField(f"mandateId: yours is {mandate}; send that, or leave it out", field="mandateId")
    return on_behalf(who, None if body.user_id is None else str(body.user_id))
