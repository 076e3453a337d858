"""What the published OpenAPI promises, and whether an answer, an example or the document itself keeps it."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
from jsonschema import Draft202012Validator

from tests.api.reading import parse_sse

Described = dict[str, Any]
Operation = tuple[str, str, Described]

PROBLEM = "application/problem+json"
SSE, NDJSON = "text/event-stream", "application/x-ndjson"


def operations(published: Described) -> Iterator[Operation]:
    for path, methods in published["paths"].items():
        yield from ((method.upper(), path, described) for method, described in methods.items())


def examples(media: Described) -> dict[str, Any]:
    named = {name: example["value"] for name, example in media.get("examples", {}).items()}
    return {"example": media["example"], **named} if "example" in media else named


def complaints(published: Described) -> list[str]:
    """Everything that a reader of the document would miss in it, or would find wrong."""
    found = []
    for method, path, described in operations(published):
        found += [f"{method} {path}: {lack}" for lack in _lacks(published, described)]
    return found


def _lacks(published: Described, described: Described) -> Iterator[str]:
    tags = {tag["name"] for tag in published["tags"] if tag["description"]}
    if not described.get("summary") or not set(described["tags"]) <= tags:
        yield "no summary, or in no group that is described"
    for parameter in described.get("parameters", ()):
        if not parameter.get("description"):
            yield f"parameter {parameter['name']} has no description"
    if "requestBody" in described:
        yield from _contents(published, described["requestBody"], "request")
    for status, answer in described["responses"].items():
        if not answer["description"]:
            yield f"{status} has no description"
        if status not in ("204", "304"):
            yield from _contents(published, answer, status)
        if int(status) >= 400:
            yield from _no_problem(answer, status)


def _contents(published: Described, described: Described, what: str) -> Iterator[str]:
    if not described.get("content"):
        yield f"{what} has no content"
    for kind, media in described.get("content", {}).items():
        if not media.get("schema") or not examples(media):
            yield f"{what} as {kind} lacks a schema or an example"
        if kind in (SSE, NDJSON) and not media.get("itemSchema"):
            yield f"{what} as {kind} does not say what its items are"
        for name, example in examples(media).items():
            yield from (f"{what} as {kind}, {name}: {wrong}" for wrong in misfits(published, kind, media, example))


def _no_problem(answer: Described, status: str) -> Iterator[str]:
    content = answer.get("content", {})
    if list(content) != [PROBLEM]:
        yield f"{status} is no problem"
    for code, problem in examples(content.get(PROBLEM, {})).items():
        if (problem["code"], str(problem["status"])) != (code, status):
            yield f"the example {code} of {status} is one of something else"


def misfits(published: Described, kind: str, media: Described, value: Any) -> list[str]:
    """What is wrong with a value, or with each item of a stream."""
    schema, items = media.get("schema", {}), [value]
    if "itemSchema" in media and kind == NDJSON:
        schema, items = media["itemSchema"], [json.loads(line) for line in value.splitlines()]
    elif "itemSchema" in media:
        schema = media["itemSchema"]["properties"]["data"]["contentSchema"]
        items = [{name: part for name, part in item.items() if name != "id"} for item in parse_sse(value)]
    validator = Draft202012Validator({"components": published["components"], "allOf": [schema]})
    return [error.message[:300] for item in items for error in validator.iter_errors(item)]


async def check(published: Described, answer: httpx2.Response) -> None:
    """An answer is one that the document promises: its status, its kind, its code, its shape."""
    path = answer.request.url.path
    described = _described(published, answer.request.method, path)
    if described is None:
        assert answer.status_code in (200, 307, 404, 405, 426), path
        return
    where = f"{answer.request.method} {path}: {answer.status_code}"
    assert str(answer.status_code) in described["responses"], f"{where} is not documented"
    content = described["responses"][str(answer.status_code)].get("content", {})
    kind = answer.headers.get("content-type", "").partition(";")[0]
    assert not content or kind in content or "*/*" in content, f"{where} is documented, but not as {kind}"
    if kind == PROBLEM:
        code = json.loads(await answer.aread())["code"]
        assert code in content[kind]["examples"], f"{where} is documented, but not with the code {code}"
    if kind in ("application/json", PROBLEM) and kind in content and not path.endswith("/events"):
        assert not misfits(published, kind, content[kind], json.loads(await answer.aread())), where


def _described(published: Described, method: str, path: str) -> Described | None:
    for known, template, described in operations(published):
        if known == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return described
    return None
