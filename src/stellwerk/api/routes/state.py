"""/sessions/{sid}/state/values, state/history, state: the graph's own state, read and changed."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from stellwerk.agents.runtime.saved_states import StateUpdate
from stellwerk.api.http.auth import RequireRead, RequireRun
from stellwerk.api.schema.openapi import BODY, STORED, UNUSABLE, documented_router, returns
from stellwerk.api.schema.shared import IdempotencyKey, Json, RequestBody, SessionId
from stellwerk.api.services import Services
from stellwerk.runs.graph_states import CheckpointPage, GraphStates, GraphValues, StateUpdated

_LONGEST_ID = 100
_KNOWN = ("unknown_session", "unknown_checkpoint", *UNUSABLE, *STORED)
CheckpointId = Annotated[
    str | None,
    Query(min_length=1, max_length=_LONGEST_ID, description="of `state/history`; without it, the latest"),
]


class NewState(RequestBody):
    values: Any = Field(
        description="by keys of the state, as a node would return them; null only lets the graph go on from `as_node`",
        examples=[{"topic": "trams"}],
    )
    as_node: str | None = Field(
        None, min_length=1, max_length=200, description="the node that made the change; by default the last that ran"
    )
    checkpoint_id: str | None = Field(
        None, min_length=1, max_length=_LONGEST_ID, description="where to go back to first; by default the latest"
    )

    def to_update(self) -> StateUpdate:
        return StateUpdate(self.values, self.as_node, self.checkpoint_id)


def routes(services: Services) -> APIRouter:
    router = documented_router("state", "/sessions/{sid}/state")
    states = GraphStates(
        services.database, services.log, services.systems, services.documents, services.quotas, services.clock
    )

    @router.get("/values", **returns(200, GraphValues, "As the graph has it", *_KNOWN))
    async def values(who: RequireRead, sid: SessionId, checkpoint_id: CheckpointId = None) -> Response:
        """The state of the session's graph: values, next nodes, tasks with their interrupts.

        Bytes, and texts over 256 KiB, are references to files of the session (`document_id`).
        """
        return Json(await states.values(who.tenant, sid, checkpoint_id))

    @router.get("/history", **returns(200, CheckpointPage, "A page", "invalid_limit", *_KNOWN))
    async def history(
        who: RequireRead,
        sid: SessionId,
        before: Annotated[
            str | None,
            Query(min_length=1, max_length=_LONGEST_ID, description="the `next` of the page before, or a checkpoint"),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=100, description="how many, at most")] = 20,
    ) -> Response:
        """The checkpoints of the session's graph, the newest first.

        `state/values?checkpoint_id=…` has the values of each.
        """
        return Json(await states.history(who.tenant, sid, before=before, limit=limit))

    changed = (*BODY, "unknown_state_key", "session_busy", "key_reused", *_KNOWN)

    @router.post("", **returns(200, StateUpdated, "It is stored", *changed))
    async def change(who: RequireRun, sid: SessionId, body: NewState, key: IdempotencyKey = None) -> Response:
        """Change the state of the session's graph, as LangGraph's `update_state` does.

        The graph's reducers apply the values, and its edges decide which nodes are next. The next message, the answer
        to an open question and a fork continue with the changed state. Not possible while a run is under way.
        """
        return Json(await states.change(who.tenant, sid, body.to_update(), key=key))

    return router
