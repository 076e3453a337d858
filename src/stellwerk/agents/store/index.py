"""The index for semantic search: embeddings by provider or by a function of the operator, checked at the start.

Vectors are compared by numpy, where it is installed. An SQLite extension does it no faster, and many builds of Python
load none.
"""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from importlib import import_module
from math import hypot, isfinite
from operator import mul
from typing import Any

from langchain_core.embeddings import Embeddings
from langgraph.store.base import ensure_embeddings
from langgraph.store.memory import InMemoryStore

from stellwerk.agents.graphs.import_reference import load_reference, operator_code
from stellwerk.errors import BrokenReference, EmbeddingFailed, SettingsError
from stellwerk.logs import get_logger
from stellwerk.spec.operator import StoreIndex

logger = get_logger(__name__)

_PROBE = "stellwerk"
_PROBE_SECONDS = 20.0
_NO_NUMPY = "searches of more than a few hundred items are slow without it: pip install 'path/to/stellwerk[search]'"
Vector = Any
"""An array of floats, of length 1: the product of two is the cosine of their angle."""


class Index:
    """Makes vectors of texts; each is checked against the configured number of dimensions."""

    def __init__(self, spec: StoreIndex, embeddings: Embeddings) -> None:
        self.spec = spec
        self.embeddings = embeddings
        self.similarity = similarity()
        """The cosine of the angle between two stored vectors; a function for SQL."""

    async def of_items(self, texts: Sequence[str]) -> list[Vector]:
        """
        Raises:
            EmbeddingFailed: the embeddings failed, or gave something else than vectors of this size.
        """
        try:
            with operator_code(self.spec.embed, "embedding a text"):
                vectors = await self.embeddings.aembed_documents(list(texts))
        except BrokenReference as error:
            raise EmbeddingFailed(error.message) from error
        return self._checked(vectors, len(texts))

    async def of_query(self, text: str) -> Vector:
        """
        Raises:
            EmbeddingFailed: as ``of_items``.
        """
        try:
            with operator_code(self.spec.embed, "embedding a query"):
                vector = await self.embeddings.aembed_query(text)
        except BrokenReference as error:
            raise EmbeddingFailed(error.message) from error
        return self._checked([vector], 1)[0]

    async def check(self) -> None:
        """Embed a text at the start of the server.

        A provider that cannot be reached now may be later, so that is only logged.

        Raises:
            SettingsError: a function fails, or vectors have another size than configured.
        """
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await self.of_items([_PROBE])
        except TimeoutError:
            self._unavailable(f"no answer within {_PROBE_SECONDS:g} s")
        except EmbeddingFailed as error:
            if error.is_wrong or is_reference(self.spec.embed):
                raise SettingsError(f"store.index: {error.message}") from error
            self._unavailable(error.message)

    def _unavailable(self, reason: str) -> None:
        remedy = "items and queries are refused until it answers; check its key, its name and the network"
        logger.error("store_index_unavailable", embed=self.spec.embed, reason=reason, remedy=remedy)

    def _checked(self, vectors: Any, count: int) -> list[Vector]:
        embed, dims = self.spec.embed, self.spec.dims
        try:
            found = [array("d", map(float, vector)) for vector in vectors]
        except (TypeError, ValueError):
            raise EmbeddingFailed(f"{embed} gives no vectors of numbers", is_wrong=True) from None
        if len(found) != count:
            said = f"{embed} gives {len(found)} vectors for {count} texts; one for each is needed"
            raise EmbeddingFailed(said, is_wrong=True)
        for given in {len(vector) for vector in found} - {dims}:
            said = f"{embed} gives vectors of {given} numbers, and dims is {dims}; set dims to {given}"
            raise EmbeddingFailed(said, is_wrong=True)
        if not all(isfinite(number) for vector in found for number in vector):
            raise EmbeddingFailed(f"{embed} gives a vector with NaN or infinity", is_wrong=True)
        return [_of_length_one(vector) for vector in found]


def _of_length_one(vector: "array[float]") -> Vector:
    length = hypot(*vector) or 1.0
    return array("f", (number / length for number in vector))


def similarity(*, use_numpy: bool = True) -> Callable[[bytes, bytes], float]:
    """The product of two stored vectors, by numpy if it is installed."""
    try:
        numpy: Any = import_module("numpy") if use_numpy else None
    except ImportError:
        logger.warning("store_index_without_numpy", remedy=_NO_NUMPY)
        numpy = None
    if numpy is None:
        return lambda one, other: sum(map(mul, memoryview(one).cast("f"), memoryview(other).cast("f")))
    return lambda one, other: float(numpy.frombuffer(one, "f4").dot(numpy.frombuffer(other, "f4")))


def is_reference(embed: str) -> bool:
    """Whether it names code of the operator, ``file.py:function`` or ``package.module:function``, and no provider."""
    return "." in embed.partition(":")[0]


def load_index(spec: StoreIndex) -> Index:
    """
    Raises:
        SettingsError: a package is missing, or there is no such provider or function.
    """
    if not is_reference(spec.embed):
        with operator_code(f"store.index.embed: {spec.embed}", "making the embeddings"):
            return Index(spec, ensure_embeddings(spec.embed))
    found = load_reference(spec.embed)
    if isinstance(found, type) or not (isinstance(found, Embeddings) or callable(found)):
        needed = "a function of a list of texts, or an object of LangChain's Embeddings, is needed"
        raise BrokenReference(f"store.index.embed: {spec.embed}", f"is {found!r:.60}; {needed}")
    return Index(spec, ensure_embeddings(found))


async def open_index(spec: StoreIndex | None) -> Index | None:
    """The index, checked; None if there is none.

    Raises:
        SettingsError: it cannot be made, or its vectors have another size than configured.
    """
    if spec is None:
        return None
    index = load_index(spec)
    await index.check()
    return index


class _OfOneProcess(InMemoryStore):
    """A store that ends before its items expire."""

    supports_ttl = True


async def memory_store(spec: StoreIndex | None) -> InMemoryStore:
    """A store for one process, without a server."""
    index = await open_index(spec)
    if index is None:
        return _OfOneProcess()
    return _OfOneProcess(index={"embed": index.embeddings, "dims": index.spec.dims, "fields": index.spec.fields})
