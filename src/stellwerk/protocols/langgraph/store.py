"""/store: items that graphs remember beyond a session; the same as at /store of this server."""

from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from msgspec import Struct
from pydantic import BaseModel, ValidationError

from stellwerk.agents.store.tenant_store import NamespaceSearch, StoreItem
from stellwerk.api.http.audit import only_reads
from stellwerk.api.http.auth import RequireReadTolerant, RequireRunTolerant
from stellwerk.api.http.problems import validation_error
from stellwerk.api.routes import store
from stellwerk.api.schema.shared import Json
from stellwerk.api.services import Services
from stellwerk.protocols.langgraph import shapes
from stellwerk.protocols.requests import LARGEST, body_of

Form = TypeVar("Form", bound=BaseModel)


class NamespaceRequest(Struct):
    prefix: list[str] | None = None
    suffix: list[str] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0
    user_id: str | None = None


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/store", include_in_schema=False)

    @router.put("/items", status_code=204)
    async def put(who: RequireRunTolerant, request: Request) -> None:
        await store.store_item(services, who, _form(store.NewItem, await body_of(request, dict[str, Any])))

    @router.get("/items")
    async def get(who: RequireReadTolerant, request: Request) -> Response:
        found = await store.find_item(services, who, _form(store.ItemPlace, dict(request.query_params)))
        return Json(None if found is None else _shown(found))

    @router.delete("/items", status_code=204)
    async def delete(who: RequireRunTolerant, request: Request) -> None:
        given = {**request.query_params, **await body_of(request, dict[str, Any])}
        if isinstance(given.get("namespace"), list):
            given["namespace"] = ".".join(map(str, given["namespace"]))
        await store.delete_item(services, who, _form(store.ItemPlace, given))

    @router.post("/items/search")
    async def search(who: RequireReadTolerant, request: Request) -> Response:
        only_reads(request)
        wanted = _form(store.SearchRequest, await body_of(request, dict[str, Any]))
        found = await store.search_items(services, who, wanted)
        return Json({"items": [{**_shown(each), "score": each.score} for each in found]})

    @router.post("/namespaces")
    async def namespaces(who: RequireReadTolerant, request: Request) -> Response:
        only_reads(request)
        body = await body_of(request, NamespaceRequest)
        wanted = NamespaceSearch(
            prefix=tuple(body.prefix or ()),
            suffix=tuple(body.suffix or ()),
            max_depth=None if body.max_depth is None else min(LARGEST, max(1, body.max_depth)),
            limit=min(500, max(1, body.limit)),
            offset=min(LARGEST, max(0, body.offset)),
        )
        user = store.whose(who, body.user_id)
        return Json({"namespaces": await services.stores(who.tenant).namespaces(user, wanted)})

    return router


def _form(form: type[Form], given: dict[str, Any]) -> Form:
    """The known fields of a body, checked as those of this server's own routes."""
    known = {name: value for name, value in given.items() if name in form.model_fields and value is not None}
    try:
        return form.model_validate(known)
    except ValidationError as error:
        raise validation_error(error.errors()[0], what="body") from error


def _shown(item: StoreItem) -> shapes.Json:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": shapes.moment(item.created_at),
        "updated_at": shapes.moment(item.updated_at),
    }
