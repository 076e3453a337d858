"""The published OpenAPI: the types that the routes encode as schemas, with an example of each answer and each error.

``says``, ``text``, ``lines``, ``sse`` and ``may`` describe answers where their routes
stand. ``install`` makes the document, and puts into it what they refer to.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from fastapi import FastAPI

from stellwerk.api import refusals
from stellwerk.api.answers import ANSWERS, ENVELOPE, DialectLine, ProblemDetails
from stellwerk.api.problems import Problem
from stellwerk.envelope.model import Envelope

Described = dict[str, Any]
Responses = dict[int | str, Described]

_REF = "#/components/schemas/{name}"
_JSON, _PROBLEM = "application/json", "application/problem+json"
_KEY = "an API key, `sw_…`, or a token of the operator's issuer; a server without keys asks for none"
_PLACE: Described = {
    "position": {"type": "integer", "description": "counts 1, 2, 3 … in a session; the cursor to come back with"},
    "origin": {"enum": ["live", "replay"], "description": "replay: it was stored when the reader came"},
    "session_id": {"type": "string"},
}


def says(kind: type, example: object, description: str) -> Described:
    """An answer in JSON of this type."""
    # As text, until the document is completed: FastAPI takes every null out of what it is given.
    media = {"schema": _ref(kind), "example": msgspec.json.encode(example).decode()}
    return {"description": description, "content": {_JSON: media}}


def lists(kind: type, example: object, description: str) -> Described:
    """An answer in JSON that is an array of these; whoever wants the next page follows the link."""
    listed = says(kind, [example], description)
    listed["content"][_JSON]["schema"] = {"type": "array", "items": _ref(kind)}
    link = {"schema": {"type": "string"}, "description": 'the next page, as `<…>; rel="next"`, if there is one'}
    return {**listed, "headers": {"Link": link}}


def polled(answer: Described) -> Responses:
    """An answer that is not sent again as long as it is the same."""
    tag = {"schema": {"type": "string"}, "description": "to be sent back as `If-None-Match`"}
    known = {"description": "Nothing has changed", "headers": {"ETag": tag}}
    return {200: {**answer, "headers": {**answer.get("headers", {}), "ETag": tag}}, 304: known}


def text(media_type: str, example: str, description: str) -> Described:
    media = {"schema": {"type": "string"}, "example": example}
    return {"description": description, "content": {media_type: media}}


def lines(*items: Described, **examples: bytes) -> Described:
    """NDJSON: one of these items on each line."""
    return _stream(items[0] if len(items) == 1 else {"anyOf": list(items)}, examples)


def sse(item: Described, **examples: bytes) -> Described:
    """Server-sent events: in the data of each, such an item."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": item}
    properties = {"id": {"type": "string"}, "data": data}
    return _stream({"type": "object", "required": ["id", "data"], "properties": properties}, examples)


def envelope() -> Described:
    return {"$ref": ENVELOPE}


def dialect_line() -> Described:
    return _ref(DialectLine)


def may(*problems: Problem, parameter: Problem = refusals.PARAMETER) -> Responses:
    """The errors of a route, and those that every route may give; of those with the same code, the last is shown."""
    found: Responses = {}
    for problem in (*refusals.ANYWHERE, parameter, *problems):
        body = msgspec.json.decode(problem.body)
        media: Described = {"schema": _ref(ProblemDetails), "examples": {}}
        new = {"description": body["title"], "content": {_PROBLEM: media}}
        found.setdefault(body["status"], new)["content"][_PROBLEM]["examples"][body["code"]] = {"value": body}
    return found


def install(app: FastAPI) -> None:
    generate = app.openapi

    def openapi() -> Described:
        made = generate()  # once, and the same again from then on
        if "Envelope" not in made["components"]["schemas"]:
            _complete(made)
        return made

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(made: Described) -> None:
    schemas = made["components"]["schemas"]
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": _KEY}}
    made["security"] = [{"key": []}, {}]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)  # FastAPI's own; all of our errors are problems
    for operation in (operation for path in made["paths"].values() for operation in path.values()):
        operation["responses"] = dict(_answers(operation))
    schemas |= _shapes()


def _answers(operation: Described) -> Iterator[tuple[str, Described]]:
    for status, answer in sorted(operation["responses"].items()):
        said = answer.get("content", {}).get(_JSON)
        if said and status == "422":
            continue  # FastAPI's own again
        if said:
            said["example"] = msgspec.json.decode(said["example"])
        yield status, answer


def _shapes() -> Described:
    (told, *_), shapes = msgspec.json.schema_components((Envelope, *ANSWERS), ref_template=_REF)
    for place in told["discriminator"]["mapping"].values():
        shape = shapes[place.rpartition("/")[2]]
        shape["properties"] = _PLACE | shape["properties"]
        shape["required"] = [*_PLACE, *shape["required"]]
    return {**shapes, "Envelope": {"title": "Envelope", "description": "One thing that happened.", **told}}


def _stream(item: Described, examples: Mapping[str, bytes]) -> Described:
    shown = {name: {"value": example.decode()} for name, example in examples.items()}
    # What a stream is as a whole, for tools that do not know of items: OpenAPI has them since 3.2.
    return {"schema": {"type": "array", "items": item}, "itemSchema": item, "examples": shown}


def _ref(kind: type) -> Described:
    return {"$ref": _REF.format(name=kind.__name__)}
