"""The OpenAPI document: response types as schemas, with an example of each request, response and error.

``returns``, ``ok``, ``errors`` and ``text`` describe responses beside their routes, with
the examples in ``openapi.yaml``. ``install`` completes the document with the schemas
that they refer to and with examples of requests.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.responses import Response

from stellwerk.api.http.problems import ProblemDetails, ProblemResponse
from stellwerk.api.schema.responses import ANSWERS
from stellwerk.envelope.model import Envelope

Described = dict[str, Any]
Responses = dict[int | str, Described]
Problem = str | ProblemResponse
"""The name of an example, or an example of a plug-in."""

_REF = "#/components/schemas/{name}"
_JSON, _PROBLEM = "application/json", "application/problem+json"
_KEY = "an API key, `sw_…`, or a token of the operator's issuer; a server without keys asks for none"
_PLACE: Described = {
    "position": {"type": "integer", "description": "counts 1, 2, 3 … in a session; the cursor to resume with"},
    "origin": {"enum": ["live", "replay"], "description": "replay: it was stored before the reader connected"},
    "session_id": {"type": "string"},
}

_ANYWHERE = (
    "unauthorized",
    "forbidden",
    "refused",
    "headers_too_large",
    "limit_reached",
    "internal",
    "not_opened",
)
BODY = ("malformed_json", "too_large", "missing_field")
STORED = ("storage_full", "storage_gone")
BUSY = ("session_busy", "question_open")
UNASKED = ("nothing_asked", "not_asked", "which_question")
UNUSABLE = ("system_gone", "system_changed", "missing_secret")

_DATA: Described = msgspec.yaml.decode(Path(__file__).with_name("openapi.yaml").read_bytes())
ABOUT: str = _DATA["about"]
"""The introduction of /docs."""
TEXTS: dict[str, str] = _DATA["texts"]
STREAMS: dict[str, Described] = _DATA["streams"]
"""Responses that are streams."""


def tags(of_plugins: Sequence[Described]) -> list[Described]:
    return [*_DATA["tags"]["resources"], *of_plugins, *_DATA["tags"]["operations"]]


class DocumentedRoute(APIRoute):
    """A route whose docstring is its documentation: the first line is the summary, the rest the description."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        summary, _, description = inspect.cleandoc(endpoint.__doc__ or "").partition("\n\n")
        super().__init__(path, endpoint, **options | {"summary": summary.removesuffix(".")})
        self.description = description or " "  # FastAPI replaces an empty one by the docstring


def documented_router(tag: str, prefix: str = "") -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], default_response_class=Response, route_class=DocumentedRoute)


def returns(status: int, kind: type | None, description: str, *problems: Problem, example: str = "") -> Described:
    """Options of a route that responds with JSON of this type (None: without a body), or with one of these problems.

    ``example`` is the name of one of several examples of the type.
    """
    answer = {"description": description} if kind is None else ok(kind, example_of(kind, example), description)
    return {"status_code": status, "responses": {status: answer, **errors(*problems)}}


def example_of(kind: type, name: str = "") -> Any:
    return _DATA["responses"][f"{kind.__name__}.{name}" if name else kind.__name__]


def ok(kind: type, example: object, description: str) -> Described:
    """An answer in JSON of this type."""
    # As text, until the document is completed: FastAPI takes every null out of what it is given.
    media = {"schema": _ref(kind), "example": msgspec.json.encode(example).decode()}
    return {"description": description, "content": {_JSON: media}}


def ok_list(kind: type, example: object, description: str) -> Described:
    """A JSON array of these, with a link to the next page."""
    listed = ok(kind, [example], description)
    listed["content"][_JSON]["schema"] = {"type": "array", "items": _ref(kind)}
    link = {"schema": {"type": "string"}, "description": 'the next page, as `<…>; rel="next"`, if there is one'}
    return {**listed, "headers": {"Link": link}}


def with_etag(answer: Described) -> Responses:
    """An answer that is not sent again as long as it is the same."""
    tag = {"schema": {"type": "string"}, "description": "to be sent back as `If-None-Match`"}
    known = {"description": "Nothing has changed", "headers": {"ETag": tag}}
    return {200: {**answer, "headers": {**answer.get("headers", {}), "ETag": tag}}, 304: known}


def text(media_type: str, example: str, description: str) -> Described:
    media = {"schema": {"type": "string"}, "example": example}
    return {"description": description, "content": {media_type: media}}


def errors(*problems: Problem, parameter: Problem = "unknown_parameter") -> Responses:
    """The errors of a route, and those that every route may give; of those with the same code, the last is shown."""
    found: Responses = {}
    for problem in (*_ANYWHERE, parameter, *problems):
        body = msgspec.json.decode((_problem(problem) if isinstance(problem, str) else problem).body)
        media: Described = {"schema": _ref(ProblemDetails), "examples": {}}
        new = {"description": body["title"], "content": {_PROBLEM: media}}
        found.setdefault(body["status"], new)["content"][_PROBLEM]["examples"][body["code"]] = {"value": body}
    return found


def _problem(name: str) -> ProblemResponse:
    return ProblemResponse(**{"code": name, **_DATA["problems"][name]})


def install(app: FastAPI, schemas: Sequence[type] = ()) -> None:
    """``schemas`` are response types of plug-ins."""
    generate = app.openapi

    def openapi() -> Described:
        made = generate()  # once, and the same again from then on
        if "Envelope" not in made["components"]["schemas"]:
            _complete(made, schemas)
        return made

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(made: Described, plugged_in: Sequence[type]) -> None:
    schemas = made["components"]["schemas"]
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": _KEY}}
    made["security"] = [{"key": []}, {}]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)  # FastAPI's own; all of our errors are problems
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            operation["responses"] = dict(_answers(operation))
            for media_type, body in _DATA["requests"].get(f"{method.upper()} {path}", {}).items():
                sent = operation.setdefault("requestBody", {"required": True, "content": {}})
                sent["content"].setdefault(media_type, {}).update(body)
    schemas |= _shapes(plugged_in)


def _answers(operation: Described) -> Iterator[tuple[str, Described]]:
    for status, answer in sorted(operation["responses"].items()):
        said = answer.get("content", {}).get(_JSON)
        if said and status == "422":
            continue  # FastAPI's own again
        if said and "example" in said:  # a route of a plug-in may have none
            said["example"] = msgspec.json.decode(said["example"])
        yield status, answer


def _shapes(plugged_in: Sequence[type]) -> Described:
    (union, *_), shapes = msgspec.json.schema_components((Envelope, *ANSWERS, *plugged_in), ref_template=_REF)
    for place in union["discriminator"]["mapping"].values():
        shape = shapes[place.rpartition("/")[2]]
        shape["properties"] = _PLACE | shape["properties"]
        shape["required"] = [*_PLACE, *shape["required"]]
    return {**shapes, "Envelope": {"title": "Envelope", "description": "An event in the log of a session.", **union}}


def _ref(kind: type) -> Described:
    return {"$ref": _REF.format(name=kind.__name__)}
