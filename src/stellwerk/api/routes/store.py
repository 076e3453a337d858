"""/store: items that graphs remember beyond a session, read and written with the names of LangGraph's own API.

A user sees what belongs to them. An admin, or a key without a user, sees what all share and, with
``user_id``, what belongs to a user.
"""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from stellwerk.agents.store.tenant_store import FoundItem, ItemSearch, NamespaceSearch, StoreItem
from stellwerk.api.http.audit import only_reads
from stellwerk.api.http.auth import RequireRead, RequireRun, on_behalf
from stellwerk.api.schema.openapi import BODY, STORED, documented_router, returns
from stellwerk.api.schema.responses import FoundItems, NamespaceList
from stellwerk.api.schema.shared import Json, RequestBody, storable
from stellwerk.api.services import Services
from stellwerk.errors import InvalidField, NotFound
from stellwerk.tenants.audit import about
from stellwerk.tenants.principals import Principal
from stellwerk.tenants.store_writes import StoreWrite, admit_many

VALUE_LIMIT = 256 * 1024  # bytes
_LABELS = 16
_LABEL = 256
_FILTERS = 20
_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_FILTER_KEY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_NO_TEXT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_RESERVED = "langgraph"


def _plain(text: str) -> str:
    if _NO_TEXT.search(text):
        raise ValueError("this has a control character, or is no valid text")
    return text


def _label(text: str) -> str:
    if "." in text:
        raise ValueError("a label has no dots, because they separate labels; encode them, as %2E for instance")
    return _plain(text)


_Label = Annotated[str, StringConstraints(min_length=1, max_length=_LABEL), AfterValidator(_label)]
_Prefix = Annotated[list[_Label], Field(max_length=_LABELS)]
_Key = Annotated[str, StringConstraints(min_length=1, max_length=_LABEL), AfterValidator(_plain)]
_User = Annotated[str | None, Field(min_length=1, max_length=128)]
_Path = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_WHOSE = "the user whose items are meant; only an admin, or a key without a user, may name another"
_Dotted = Annotated[str, Field(min_length=1, max_length=_LABELS * (_LABEL + 1))]
_Offset = Annotated[int, Field(ge=0, le=1_000_000)]
_UserName = Annotated[str, Path(max_length=128, description="the id of the user", examples=["ada"])]
_EXAMPLE = ["memories", "food"]


class NewItem(RequestBody):
    namespace: Annotated[_Prefix, Field(min_length=1)] = Field(description="where it is", examples=[_EXAMPLE])
    key: _Key = Field(description="its name there; an item of this name is replaced", examples=["pizza"])
    value: dict[str, Any] = Field(description=f"up to {VALUE_LIMIT // 1024} KiB", examples=[{"text": "likes pizza"}])
    index: Literal[False] | Annotated[list[_Path], Field(max_length=50)] | None = Field(
        None, description="fields to make searchable; false for none, null for those of the server's index"
    )
    ttl: Annotated[float, Field(gt=0, le=1e8)] | None = Field(
        None, description="minutes until it is deleted; null for the default of the server", examples=[1440]
    )
    user_id: _User = Field(None, description=_WHOSE)


class ItemPlace(BaseModel):
    namespace: _Dotted = Field(description="its labels, with dots between them", examples=["memories.food"])
    key: str = Field(min_length=1, max_length=_LABEL, description="of the item", examples=["pizza"])
    user_id: _User = Field(None, description=_WHOSE)


class NamespaceQuery(BaseModel):
    prefix: _Dotted | None = Field(None, description="the first labels, with dots between them")
    suffix: _Dotted | None = Field(None, description="the last labels, with dots between them")
    max_depth: int | None = Field(None, ge=1, le=_LABELS, description="how many labels to show of each")
    limit: int = Field(100, ge=1, le=500, description="how many, at most")
    offset: _Offset = Field(0, description="how many to leave out")
    user_id: _User = Field(None, description=_WHOSE)

    def wanted(self) -> NamespaceSearch:
        return NamespaceSearch(
            prefix=_labels(self.prefix) if self.prefix else (),
            suffix=_labels(self.suffix) if self.suffix else (),
            max_depth=self.max_depth,
            limit=self.limit,
            offset=self.offset,
        )


class SearchRequest(RequestBody):
    namespace_prefix: _Prefix = Field([], description="where to search; empty for everywhere", examples=[_EXAMPLE])
    query: Annotated[str | None, Field(min_length=1, max_length=8192)] = Field(
        None, description="what the items are about; needs an index", examples=["what does she eat?"]
    )
    filter: dict[str, Any] | None = Field(
        None, description='values by path, or comparisons: `{"score": {"$gte": 4}}`', examples=[{"kind": "food"}]
    )
    limit: Annotated[int, Field(ge=1, le=500)] = Field(10, description="how many, at most")
    offset: _Offset = Field(0, description="how many to leave out")
    user_id: _User = Field(None, description=_WHOSE)

    def wanted(self) -> ItemSearch:
        return ItemSearch(
            namespace_prefix=tuple(self.namespace_prefix),
            query=self.query,
            filter=None if self.filter is None else _checked_filter(self.filter),
            limit=self.limit,
            offset=self.offset,
        )


def item_routes(services: Services) -> APIRouter:
    router = documented_router("store", "/store/items")
    unstorable = (*BODY, "invalid_namespace", "embedding_failed", *STORED)

    @router.put("", **returns(204, None, "Stored", *unstorable))
    async def put(who: RequireRun, body: NewItem) -> None:
        """Store an item, or another value of it."""
        await store_item(services, who, body)

    one = ("unknown_item", "invalid_namespace", "storage_gone")

    @router.get("", **returns(200, StoreItem, "As it is stored", *one))
    async def get(who: RequireRead, place: Annotated[ItemPlace, Query()]) -> Response:
        """Read an item."""
        return Json(await _found(services, who, place))

    @router.delete("", **returns(204, None, "Deleted", *one, "storage_full"))
    async def delete(who: RequireRun, place: Annotated[ItemPlace, Query()]) -> None:
        """Delete an item."""
        await _found(services, who, place)
        await delete_item(services, who, place)

    searched = (*BODY, "no_index", "embedding_failed", "storage_gone")

    @router.post("/search", **returns(200, FoundItems, "The best first, or the latest", *searched))
    async def search(who: RequireRead, request: Request, body: SearchRequest) -> Response:
        """Search items, in a namespace and those below it.

        With `query` by meaning, which needs an index and gives each item a `score`.
        """
        only_reads(request)
        return Json(FoundItems(items=await search_items(services, who, body)))

    return router


def routes(services: Services) -> APIRouter:
    router = documented_router("store", "/store")

    @router.get("/namespaces", **returns(200, NamespaceList, "In their order", "invalid_limit", "storage_gone"))
    async def namespaces(who: RequireRead, query: Annotated[NamespaceQuery, Query()]) -> Response:
        """List the namespaces that have items.

        `*` in `prefix` or `suffix` matches any one label.
        """
        user = whose(who, query.user_id)
        found = await services.stores(who.tenant).namespaces(user, query.wanted())
        return Json(NamespaceList(namespaces=found))

    forgotten = "Deleted; there may have been nothing"

    @router.delete("/users/{name}", **returns(204, None, forgotten, "invalid_user", *STORED))
    async def forget(who: RequireRun, name: _UserName) -> None:
        """Delete everything in the store that belongs to a user.

        What graphs without a scope store under the user's id is not known to be theirs, and stays.
        """
        user = whose(who, name) or name
        await _admit(services, who, 0)
        await services.stores(who.tenant).forget_user(user)

    return router


async def store_item(services: Services, who: Principal, item: NewItem) -> None:
    user = whose(who, item.user_id)
    namespace = _own(item.namespace)
    size = len(json.dumps(item.value, ensure_ascii=False).encode(errors="replace"))
    if size > VALUE_LIMIT:
        said = f"this has {size} bytes, and an item up to {VALUE_LIMIT}; store a file, and its id here"
        raise InvalidField(f"value: {said}", field="value")
    value = storable("value", item.value)
    await _admit(services, who, size, namespace=".".join(namespace), key=item.key, user=user)
    await services.stores(who.tenant).put(user, (namespace, item.key), value, item.index, ttl=item.ttl)


async def delete_item(services: Services, who: Principal, place: ItemPlace) -> None:
    user, namespace = whose(who, place.user_id), _labels(place.namespace)
    await _admit(services, who, 0, namespace=place.namespace, key=place.key, user=user)
    await services.stores(who.tenant).delete(user, namespace, place.key)


async def search_items(services: Services, who: Principal, wanted: SearchRequest) -> list[FoundItem]:
    store = services.stores(who.tenant)
    if wanted.query is not None and store.index is None:
        remedy = "the operator sets store.index; leave query out, and use filter"
        raise InvalidField(f"query: this server has no index for semantic search; {remedy}", field="query")
    return await store.search(whose(who, wanted.user_id), wanted.wanted())


async def find_item(services: Services, who: Principal, place: ItemPlace) -> StoreItem | None:
    return await services.stores(who.tenant).get(whose(who, place.user_id), _labels(place.namespace), place.key)


async def _found(services: Services, who: Principal, place: ItemPlace) -> StoreItem:
    found = await find_item(services, who, place)
    if found is None:
        remedy = f"POST /store/items/search lists those in {place.namespace[:80]!r}"
        raise NotFound("item", place.key, remedy=remedy)
    return found


async def _admit(services: Services, who: Principal, size: int, **ids: str | None) -> None:
    """Record a change before it is made, and check the limits; ``size`` is 0 for a deletion."""
    about(**{name: value for name, value in ids.items() if value is not None})
    after = await services.stores(who.tenant).size() + size if size else 0
    write = StoreWrite(who.tenant, services.quotas.limits(who.tenant), after)
    await services.database.submit(admit_many, write, urgent=not size)


def whose(who: Principal, user: str | None) -> str | None:
    """The user whose items are meant; None for those that all share."""
    return user if who.user is None or who.role == "admin" else on_behalf(who, user)


def _own(labels: Sequence[str]) -> tuple[str, ...]:
    if labels[0] == _RESERVED:
        raise InvalidField(f"namespace: {_RESERVED!r} is LangGraph's own; take another first label", field="namespace")
    return tuple(labels)


def _labels(dotted: str) -> tuple[str, ...]:
    labels = dotted.split(".")
    if len(labels) > _LABELS or not all(0 < len(label) <= _LABEL and not _NO_TEXT.search(label) for label in labels):
        said = f"1 to {_LABELS} labels of 1 to {_LABEL} characters, with single dots between them"
        raise InvalidField(f"namespace: {dotted[:80]!r} is none; send {said}", field="namespace")
    return tuple(labels)


def _checked_filter(given: dict[str, Any]) -> dict[str, Any]:
    if len(given) > _FILTERS:
        raise InvalidField(f"filter: there must not be more than {_FILTERS} fields", field="filter")
    for key, value in given.items():
        field = f"filter.{key[:80]}"
        if not _FILTER_KEY.fullmatch(key):
            said = "a path has letters, digits, - and _, with dots between its keys"
            raise InvalidField(f"{field}: {said}", field=field)
        compared = value if isinstance(value, dict) else {"$eq": value}
        for operator, operand in compared.items():
            if operator not in _OPERATORS:
                raise InvalidField(f"{field}: {operator[:20]!r} is none of {', '.join(_OPERATORS)}", field=field)
            if isinstance(operand, dict | list):
                raise InvalidField(f"{field}: compare with a text, a number, true, false or null", field=field)
    checked: dict[str, Any] = storable("filter", given)
    return checked
