"""Reader of docx, pptx and PDF: bytes to Markdown, without OCR. Only this module uses xberg."""

import asyncio
from typing import TYPE_CHECKING

from stellwerk.documents.mimes import OFFICE
from stellwerk.errors import ExtractionError
from stellwerk.workflows.documents.contents import ContentItem, page_mark
from stellwerk.workflows.documents.readers.archive import OFFICE_MEMBERS, opened
from stellwerk.workflows.documents.readers.items import Reader, Source, language_of, make_item, text_summary

if TYPE_CHECKING:
    import xberg

_KINDS = {"docx": "Document", "pptx": "Slides", "pdf": "PDF"}


def office_reader(kind: str) -> Reader:
    def read(source: Source) -> list[ContentItem]:
        if kind != "pdf":
            opened(source.data, members=OFFICE_MEMBERS)
        pages = _pages(source.data, kind)
        text = "\n\n".join(pages).strip()
        if not text:
            raise ExtractionError("document_empty", "no text is in it; pictures of text are not read")
        language, count = language_of(text), None if kind == "docx" else len(pages)
        summary = text_summary(_KINDS[kind], text, language, pages=count)
        shown = text if count is None else "\n\n".join(_marked(pages))
        return [make_item(source, OFFICE[kind], f"{shown}\n", summary, ext=kind, language=language, pages=count)]

    return read


def _marked(pages: list[str]) -> list[str]:
    return [f"{page_mark(number)}\n{page}" for number, page in enumerate(pages, 1)]


def _pages(data: bytes, kind: str) -> list[str]:
    """The Markdown of each page or slide; a text document is one page."""
    try:
        import xberg
    except ImportError as error:
        raise ExtractionError("document_needs_package") from error
    given = xberg.ExtractInput(kind="bytes", bytes=data, mime_type=OFFICE[kind])
    try:
        result = asyncio.run(xberg.extract(given, _config(kind)))
    except RuntimeError as error:  # the only class it raises; its message has the cause
        raise _refusal(str(error)) from error
    if not result.results:
        raise _refusal(result.errors[0].message if result.errors else "")
    document = result.results[0]
    return [page.content.strip() for page in document.pages] if document.pages else [document.content]


def _config(kind: str) -> "xberg.ExtractionConfig":
    import xberg

    return xberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,
        enable_quality_processing=False,
        postprocessor=xberg.PostProcessorConfig(enabled=False),
        output_format="markdown",
        escape_markdown=False,
        pages=xberg.PageConfig(extract_pages=kind != "docx"),
        concurrency=xberg.ConcurrencyConfig(max_threads=1),
        max_archive_depth=0,
        # Checked before, by archive.opened; a blank picture alone may grow a thousandfold.
        security_limits=xberg.SecurityLimits(max_compression_ratio=100_000, max_table_cells=2_000_000),
        extraction_timeout_secs=None,
    )


def _refusal(problem: str) -> ExtractionError:
    if "password" in problem or "encrypted" in problem.lower():
        return ExtractionError("document_encrypted")
    if "limit exceeded" in problem.lower():
        return ExtractionError("document_too_large", problem[:200])
    return ExtractionError("document_corrupt", problem[:200])
