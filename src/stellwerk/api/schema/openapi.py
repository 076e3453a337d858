"""The OpenAPI document: response types as schemas, with examples of requests, responses and errors.

``returns``, ``returns_text``, ``ok`` and ``errors`` describe responses beside their routes, with the
examples in ``openapi.yaml``. ``install`` adds the schemas that they refer to.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI, Response
from fastapi.routing import APIRoute

from stellwerk.api.http.problems import ProblemDetails, ProblemResponse
from stellwerk.envelope.model import Envelope

Described = dict[str, Any]
Responses = dict[int | str, Described]
Problem = str | ProblemResponse  # the name of an example, or an example of a plug-in

_REF = "#/components/schemas/{name}"
_JSON, _PROBLEM = "application/json", "application/problem+json"
_KEY = "an API key, `sw_…`, or a token of the operator's issuer; a server without keys asks for none"
_PLACE: Described = {
    "position": {"type": "integer", "description": "counts 1, 2, 3 … in a session; the cursor to resume with"},
    "origin": {"enum": ["live", "replay"], "description": "replay: it was stored before the reader connected"},
    "session_id": {"type": "string"},
}

_ANYWHERE = (
    *("unauthorized", "forbidden", "refused", "headers_too_large"),
    *("limit_reached", "internal", "not_opened"),
)
BODY = ("malformed_json", "too_large", "missing_field")
STORED = ("storage_full", "storage_gone")
BUSY = ("session_busy", "question_open")
UNASKED = ("nothing_asked", "not_asked", "which_question")
UNUSABLE = ("system_gone", "system_changed", "graph_unusable", "missing_secret")

_DATA: Described = msgspec.yaml.decode(Path(__file__).with_name("openapi.yaml").read_bytes())
ABOUT: str = _DATA["about"]  # the introduction of /docs
STREAMS: dict[str, Described] = _DATA["streams"]  # responses that are streams


def tags(of_plugins: Sequence[Described]) -> list[Described]:
    return [*_DATA["tags"]["resources"], *of_plugins, *_DATA["tags"]["operations"]]


class DocumentedRoute(APIRoute):
    """A route whose docstring is its documentation: a summary in the first line, then a description."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        summary, _, description = inspect.cleandoc(endpoint.__doc__ or "").partition("\n\n")
        super().__init__(path, endpoint, **options | {"summary": summary.removesuffix(".")})
        self.description = description or " "  # FastAPI replaces an empty one by the docstring


def documented_router(tag: str, prefix: str = "") -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], default_response_class=Response, route_class=DocumentedRoute)


def returns(status: int, kind: type | None, description: str, *problems: Problem, example: str = "") -> Described:
    """Options of a route that responds with JSON of this type (None: without a body), or with a problem.

    ``example`` is the name of one of several examples of the type.
    """
    answer: Described = {"description": description}
    if kind is not None:
        answer = ok(kind, example_of(kind, example), description)
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


def returns_text(media_type: str, example: str, description: str, *problems: Problem) -> Described:
    """Options of a route that responds with text; ``example`` is the name of a text."""
    media = {"schema": {"type": "string"}, "example": _DATA["texts"][example]}
    answer = {"description": description, "content": {media_type: media}}
    return {"responses": {200: answer, **errors(*problems)}}


def errors(*problems: Problem, parameter: Problem = "unknown_parameter") -> Responses:
    """The errors of a route, and those of every route; of those with the same code, the last is shown."""
    found: Responses = {}
    for problem in (*_ANYWHERE, parameter, *problems):
        if isinstance(problem, str):
            problem = ProblemResponse(**{"code": problem, **_DATA["problems"][problem]})
        body = msgspec.json.decode(problem.body)
        media: Described = {"schema": _ref(ProblemDetails), "examples": {}}
        new = {"description": body["title"], "content": {_PROBLEM: media}}
        shown = found.setdefault(body["status"], new)
        shown["content"][_PROBLEM]["examples"][body["code"]] = {"value": body}
    return found


def install(app: FastAPI, schemas: Sequence[type]) -> None:
    """``schemas`` are the response types to publish."""
    generate = app.openapi

    def openapi() -> Described:
        made = generate()  # once, and the same again from then on
        if "Envelope" not in made["components"]["schemas"]:
            _complete(made, schemas)
        return made

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(made: Described, published: Sequence[type]) -> None:
    schemas = made["components"]["schemas"]
    key = {"type": "http", "scheme": "bearer", "description": _KEY}
    made["components"]["securitySchemes"] = {"key": key}
    made["security"] = [{"key": []}, {}]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)  # FastAPI's own; all of our errors are problems
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            operation["responses"] = dict(_answers(operation))
            for media_type, body in _DATA["requests"].get(f"{method.upper()} {path}", {}).items():
                sent = operation.setdefault("requestBody", {"required": True, "content": {}})
                sent["content"].setdefault(media_type, {}).update(body)
    schemas |= _shapes(published)


def _answers(operation: Described) -> Iterator[tuple[str, Described]]:
    for status, answer in sorted(operation["responses"].items()):
        said = answer.get("content", {}).get(_JSON)
        if said and status == "422":
            continue  # FastAPI's own again
        if said and "example" in said:  # a route of a plug-in may have none
            said["example"] = msgspec.json.decode(said["example"])
        yield status, answer


def _shapes(published: Sequence[type]) -> Described:
    (union, *_), shapes = msgspec.json.schema_components((Envelope, *published), ref_template=_REF)
    for place in union["discriminator"]["mapping"].values():
        shape = shapes[place.rpartition("/")[2]]
        shape["properties"] = _PLACE | shape["properties"]
        shape["required"] = [*_PLACE, *shape["required"]]
    described = {"title": "Envelope", "description": "An event in the log of a session.", **union}
    return {**shapes, "Envelope": described}


def _ref(kind: type) -> Described:
    return {"$ref": _REF.format(name=kind.__name__)}
