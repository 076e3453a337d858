"""Operations of LangGraph's store: their namespaces moved below labels, known secrets removed, their texts embedded."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast
from urllib.parse import quote

from langchain_core.embeddings import Embeddings
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, Result, SearchOp, TTLConfig

from stellwerk.agents.store.index import Index, Vector
from stellwerk.redaction.redactor import Redactor
from stellwerk.spec.operator import StoreTtl

Namespace = tuple[str, ...]

_vectors: ContextVar[Mapping[str, Vector]] = ContextVar("stellwerk_store_vectors")


def label(mark: str, name: str) -> str:
    """The first label of someone's namespaces; no label may have a dot, and an e-mail address has."""
    return mark + quote(name, safe="").replace(".", "%2E")


def below(labels: Namespace, op: Op) -> Op:
    """The same operation on namespaces below these labels."""
    match op:
        case GetOp() | PutOp():
            return op._replace(namespace=(*labels, *op.namespace))
        case SearchOp():
            return op._replace(namespace_prefix=(*labels, *op.namespace_prefix))
        case ListNamespacesOp():
            given = op.match_conditions or ()
            prefix = next((tuple(each.path) for each in given if each.match_type == "prefix"), ())
            others = tuple(each for each in given if each.match_type != "prefix")
            depth = None if op.max_depth is None else op.max_depth + len(labels)
            return op._replace(
                match_conditions=(MatchCondition("prefix", (*labels, *prefix)), *others), max_depth=depth
            )


def without_labels(count: int, result: Result) -> Result:
    if isinstance(result, Item):
        result.namespace = result.namespace[count:]
    elif isinstance(result, list):
        return cast(
            Result, [without_labels(count, each) if isinstance(each, Item) else each[count:] for each in result]
        )
    return result


def redacted(redactor: Redactor, op: Op) -> Op:
    redact = redactor.redact_text
    match op:
        case PutOp(namespace=namespace, key=key, value=value):
            clean = op._replace(value=cast("dict[str, Any] | None", redactor.redact(value)))
            return clean._replace(namespace=tuple(map(redact, namespace)), key=redact(key))
        case GetOp(namespace=namespace, key=key):
            return op._replace(namespace=tuple(map(redact, namespace)), key=redact(key))
        case SearchOp(namespace_prefix=namespace, query=query):
            query = None if query is None else redact(query)
            return op._replace(namespace_prefix=tuple(map(redact, namespace)), query=query)
    return op


class MadeBefore(Embeddings):
    """Gives the library vectors that were made before it took its lock or its connection."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [_vectors.get()[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.embed_documents(texts)


@contextmanager
def made_before(vectors: Mapping[str, Vector]) -> Iterator[None]:
    token = _vectors.set(vectors)
    try:
        yield
    finally:
        _vectors.reset(token)


async def embedded(
    index: Index, ops: Sequence[Op], request_of: Callable[[Sequence[tuple[int, PutOp]]], Any]
) -> dict[str, Vector]:
    """Vectors of all texts in a batch; a slow provider must not delay other operations."""
    request = request_of([(number, op) for number, op in enumerate(ops) if isinstance(op, PutOp)])[1]
    texts = list(dict.fromkeys(text for *_, text in request[1])) if request else []
    vectors: dict[str, Vector] = {}
    if texts:
        vectors.update(zip(texts, await index.of_items(texts), strict=True))
    for op in ops:
        if isinstance(op, SearchOp) and op.query:
            vectors[op.query] = await index.of_query(op.query)
    return vectors


def way(index: Index) -> str:
    """How vectors are made: others cannot be compared with them."""
    return f"{index.spec.embed} {index.spec.dims} {' '.join(index.spec.fields)}"


def ttl_config(ttl: StoreTtl | None) -> TTLConfig:
    """The same as the library knows it."""
    ttl = ttl or StoreTtl()
    return {"refresh_on_read": ttl.refresh_on_read, "default_ttl": ttl.default_ttl}
