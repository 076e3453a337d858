"""Semantic search: real scores, whole pages, no vectors left behind, and an index that cannot be made is an error."""

import asyncio
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp, ensure_embeddings

from stellwerk.agents.store.index import Index, load_index, similarity
from stellwerk.agents.store.sqlite import SqliteStore, open_store
from stellwerk.errors import EmbeddingFailed, SettingsError
from stellwerk.redaction.redactor import Redactor
from stellwerk.spec.operator import StoreIndex
from tests.agents import embedding
from tests.agents.embedding import DIMS
from tests.crash.waiting import eventually

NOTES = ("notes",)


def index_of(embed: Any = embedding.embed, *, dims: int = DIMS, fields: Sequence[str] = ("text",)) -> Index:
    name = getattr(embed, "__name__", "model")
    return Index(StoreIndex(embed=f"tests.py:{name}", dims=dims, fields=list(fields)), ensure_embeddings(embed))


async def vectors(store: SqliteStore) -> int:
    async with store.conn.execute("SELECT count(*) FROM store_vectors") as cursor:
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("embed", [embedding.embed, embedding.embed_later], ids=["sync", "async"])
async def test_a_query_finds_the_nearest_item_first_and_gives_each_a_score(tmp_path: Path, embed: Any) -> None:
    async with open_store(tmp_path / "store.db", index=index_of(embed)) as store:
        for text in ("zoo", "abba", "aaab", "a mixed bag"):
            await store.aput(NOTES, text, {"text": text})
        await store.aput(NOTES, "hidden", {"text": "abba"}, index=False)
        found = await store.asearch(NOTES, query="abba", limit=2)
        assert [item.key for item in found] == ["abba", "aaab"]
        assert found[0].score == pytest.approx(1.0) and found[1].score == pytest.approx(0.894, abs=0.001)
        assert "hidden" not in {item.key for item in await store.asearch(NOTES, query="abba", limit=100)}
        only = await store.asearch(NOTES, query="abba", filter={"text": "zoo"})
        assert [item.key for item in only] == ["zoo"] and only[0].score == pytest.approx(0.0)


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=40), st.data())
def test_vectors_are_compared_alike_with_numpy_and_without(one: list[float], data: st.DataObject) -> None:
    other = data.draw(st.lists(st.floats(-1, 1, width=32), min_size=len(one), max_size=len(one)))
    both = array("f", one).tobytes(), array("f", other).tobytes()
    assert similarity()(*both) == pytest.approx(similarity(use_numpy=False)(*both), abs=1e-4)


async def test_pages_of_a_query_follow_each_other_also_where_an_item_has_many_vectors(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db", index=index_of(fields=["lines[*]"])) as store:
        for number in range(30):
            lines = ["a" * (line + 1) + "b" * number for line in range(5)]
            await store.aput(NOTES, f"{number:02}", {"lines": lines})
        paged: list[str] = []
        for offset in range(0, 40, 10):
            paged += [item.key for item in await store.asearch(NOTES, query="a", limit=10, offset=offset)]
        assert paged == [item.key for item in await store.asearch(NOTES, query="a", limit=30)]
        assert len(set(paged)) == 30


async def test_what_is_deleted_or_replaced_leaves_no_vectors_behind(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db", index=index_of(fields=["$", "lines[*]"])) as store:
        await store.aput(NOTES, "a", {"lines": ["x", "y", "z"]})
        await store.aput(NOTES, "b", {"lines": ["x"]})
        assert await vectors(store) == 6
        await store.aput(NOTES, "a", {"lines": ["x"]})
        assert await vectors(store) == 4
        await store.aput(NOTES, "a", {"lines": ["x"]}, index=False)
        assert await vectors(store) == 2
        await store.adelete(NOTES, "b")
        assert await vectors(store) == 0


async def test_a_put_keeps_the_time_at_which_the_item_was_made(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db", index=index_of()) as store:
        await store.aput(NOTES, "a", {"text": "old"})
        await store.conn.execute("UPDATE store SET created_at = '2020-01-02 03:04:05', updated_at = created_at")
        await store.aput(NOTES, "a", {"text": "new"})
        found = await store.aget(NOTES, "a")
        assert found is not None and found.value == {"text": "new"}
        assert found.created_at.isoformat() == "2020-01-02T03:04:05" and found.updated_at > found.created_at


async def test_items_from_before_an_index_are_found_with_it_and_with_another_one(tmp_path: Path) -> None:
    place = tmp_path / "store.db"

    async def finds(index: Index) -> None:
        async with open_store(place, index=index) as store:

            async def found() -> bool:
                return len(await store.asearch(NOTES, query="abba", limit=500)) == 250

            await eventually(found, within=60, what="items are missing")
            best = (await store.asearch(NOTES, query="abba", limit=1))[0]
            assert best.score == pytest.approx(1.0)

    async with open_store(place) as store:
        for number in range(250):
            await store.aput(NOTES, str(number), {"text": "a" * number + "b", "note": "abba"})
    await finds(index_of(fields=["note"]))
    async with open_store(place) as store:  # without an index: nothing is made, and what was made is stale
        await store.aput(NOTES, "7", {"text": "other", "note": "baba"})
    await finds(index_of(fields=["note"]))
    await finds(index_of(lambda texts: [vector[:5] for vector in embedding.embed(texts)], dims=5, fields=["note"]))


async def test_an_index_that_was_made_is_not_made_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(texts: Sequence[str]) -> list[list[float]]:
        calls.append(len(texts))
        return embedding.embed(texts)

    for _ in range(2):
        async with open_store(tmp_path / "store.db", index=index_of(counted)) as store:
            assert await is_made(store)
            await store.aput(NOTES, "a", {"text": "abba"})
    assert calls == [1, 1]


async def is_made(store: SqliteStore) -> bool:
    async with store.conn.execute("SELECT count(*) FROM stellwerk_index") as cursor:
        return await cursor.fetchone() == (1,)


async def test_a_slow_embedding_delays_no_other_operation(tmp_path: Path) -> None:
    begun, released = asyncio.Event(), asyncio.Event()

    async def slow(texts: Sequence[str]) -> list[list[float]]:
        begun.set()
        await released.wait()
        return embedding.embed(texts)

    async with open_store(tmp_path / "store.db", index=index_of(slow)) as store:
        await store.aput(NOTES, "a", {"text": "abba"}, index=False)
        waiting = asyncio.create_task(store.abatch([PutOp(NOTES, "b", {"text": "abba"})]))
        await begun.wait()
        async with asyncio.timeout(30):
            [found] = await store.abatch([PutOp(NOTES, "c", {"text": "c"}, index=False)])
            assert found is None and await store.abatch([]) == []
        assert not waiting.done()
        released.set()
        await waiting


async def test_an_embedding_that_fails_says_so_and_changes_nothing(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db", index=index_of(embedding.fail)) as store:
        await store.aput(NOTES, "a", {"text": "old"}, index=False)
        with pytest.raises(EmbeddingFailed, match=r"tests.py:fail: embedding a text failed: .*the model is away"):
            await store.aput(NOTES, "a", {"text": "new"})
        with pytest.raises(EmbeddingFailed, match="embedding a query failed"):
            await store.asearch(NOTES, query="x")
        found = await store.aget(NOTES, "a")
        assert found is not None and found.value == {"text": "old"}


async def test_a_batch_that_fails_is_undone_as_a_whole(tmp_path: Path) -> None:
    async with open_store(tmp_path / "store.db") as store:
        await store.aput(NOTES, "good", {"n": 1})
        await store.conn.execute(
            "CREATE TRIGGER no BEFORE INSERT ON store WHEN new.key = 'bad' BEGIN SELECT RAISE(ABORT, 'not now'); END"
        )
        with pytest.raises(Exception, match="not now"):
            await store.abatch([PutOp(NOTES, "good", None), PutOp(NOTES, "bad", {"n": 2})])
        assert [item.key for item in await store.asearch(NOTES)] == ["good"]


async def test_no_secret_reaches_the_embedding_model(tmp_path: Path) -> None:
    seen: list[str] = []

    def listening(texts: Sequence[str]) -> list[list[float]]:
        seen.extend(texts)
        return embedding.embed(texts)

    redactor = Redactor(["sk-canary-4711"])
    async with open_store(tmp_path / "store.db", redactor, index_of(listening)) as store:
        await store.aput(NOTES, "a", {"text": "it is sk-canary-4711"})
        await store.asearch(NOTES, query="where is sk-canary-4711?")
    assert len(seen) == 2 and "4711" not in str(seen)


@pytest.mark.parametrize(
    ("embed", "problem"),
    [
        ("tests.agents.embedding:embed_less", "gives vectors of 3 numbers, and dims is 26; set dims to 3"),
        ("tests.agents.embedding:embed_one", "gives 2 vectors for 1 texts"),
        ("tests.agents.embedding:embed_words", "gives no vectors of numbers"),
        ("tests.agents.embedding:embed_infinity", "NaN or infinity"),
        ("tests.agents.embedding:fail", "embedding a text failed: ConnectionError: the model is away"),
        ("tests.agents.embedding:DIMS", "is 26; a function of a list of texts"),
        ("tests.agents.embedding:embde", "there is no 'embde' in it; did you mean 'embed'?"),
        ("nowhere.py:embed", "there is no file"),
        ("voyageai:voyage-3", "making the embeddings failed"),
        ("cohere:embed-english-v3.0", "making the embeddings failed.*langchain-cohere"),
    ],
)
async def test_an_index_that_cannot_be_made_is_an_error_with_its_reason(embed: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        await load_index(StoreIndex(embed=embed, dims=DIMS)).check()


class Away(Embeddings):
    """A provider that cannot be reached."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise ConnectionError("no route to host")

    def embed_query(self, text: str) -> list[float]:
        raise ConnectionError("no route to host")


async def test_a_provider_that_does_not_answer_at_the_start_is_logged_because_it_may_be_back_soon() -> None:
    with structlog.testing.capture_logs() as logs:
        await Index(StoreIndex(embed="house:small", dims=3), Away()).check()
    [line] = [line for line in logs if line["event"] == "store_index_unavailable"]
    assert line["log_level"] == "error" and "no route to host" in line["reason"]
