"""The index for semantic search: embeddings by provider or by a function of the operator, checked at the start.

Vectors are compared by numpy. An SQLite extension does it no faster, and many builds of Python load none.
"""

import asyncio
from collections.abc import Sequence
from importlib import import_module
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
_NO_NUMPY = "store.index needs a package that is not installed: pip install 'path/to/stellwerk[search]'"
Vector = Any
"""An array of numpy, of length 1: the product of two is the cosine of their angle."""


class Index:
    """Makes vectors of texts; each is checked against the configured number of dimensions.

    Raises:
        SettingsError: numpy, which is an extra, is not installed.
    """

    def __init__(self, spec: StoreIndex, embeddings: Embeddings) -> None:
        self.spec = spec
        self.embeddings = embeddings
        try:
            self._numpy: Any = import_module("numpy")
        except ImportError as error:
            raise SettingsError(_NO_NUMPY) from error

    def similarity(self, one: bytes, other: bytes) -> float:
        """The cosine of the angle between two stored vectors; a function for SQL."""
        read = self._numpy.frombuffer
        return float(read(one, "f4").dot(read(other, "f4")))

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
        numpy, embed, dims = self._numpy, self.spec.embed, self.spec.dims
        try:
            found = numpy.asarray(vectors, "f8")
        except (TypeError, ValueError):
            raise EmbeddingFailed(f"{embed} gives no vectors of numbers", is_wrong=True) from None
        if found.ndim != 2 or len(found) != count:
            said = f"{embed} gives an array of shape {found.shape} for {count} texts; one vector for each is needed"
            raise EmbeddingFailed(said, is_wrong=True)
        if found.shape[1] != dims:
            said = (
                f"{embed} gives vectors of {found.shape[1]} numbers, and dims is {dims}; set dims to {found.shape[1]}"
            )
            raise EmbeddingFailed(said, is_wrong=True)
        if not numpy.isfinite(found).all():
            raise EmbeddingFailed(f"{embed} gives a vector with NaN or infinity", is_wrong=True)
        lengths = numpy.linalg.norm(found, axis=1, keepdims=True)
        return list((found / numpy.where(lengths == 0, 1, lengths)).astype("f4"))


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
