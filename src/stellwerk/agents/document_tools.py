"""Tools on the documents of a session: see which there are, read them page by page, count in them, make new ones."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from stellwerk.agents.documents import Known, documents_wanted
from stellwerk.agents.table_figures import figures
from stellwerk.agents.tool_spec import tool
from stellwerk.documents.contents import ContentItem, Excerpt, excerpt
from stellwerk.documents.producing import produce
from stellwerk.envelope.results import Table, Text
from stellwerk.errors import InvalidField
from stellwerk.threads import in_thread

_PAGE = 8000
_READING = 150.0
"""Seconds: a document may take one minute, and may have to wait for others."""

_Document = Annotated[str, Field(max_length=300, description="Its name or its document_id.")]


@tool(idempotent=True, untrusted=True, timeout=_READING)
async def list_documents() -> Text:
    """List the documents of this conversation: those that the user gave, and those that were made for him."""
    documents = documents_wanted()
    known = {(each.document_id, each.name): each for each in await documents.listed()}
    summaries = await asyncio.gather(*(documents.summary(each) for each in known.values()))
    lines = [listed(each, said) for each, said in zip(known.values(), summaries, strict=True)]
    return Text(text="\n".join(lines) or "There are no documents.")


def listed(known: Known, summary: str) -> str:
    """A document in one line, as agents read it."""
    return f"- {' '.join(known.name.split())} ({known.document_id}): {' '.join(summary.split())}"


@tool(idempotent=True, untrusted=True, timeout=_READING)
async def read_document(
    document: _Document,
    start: Annotated[int, Field(ge=0, description="The letter to begin with; 0 is the beginning.")] = 0,
    original: Annotated[bool, Field(description="The file itself, as text or base64, not what is to be read.")] = False,
) -> Text:
    """Read a document: text as it is, a table as CSV. A long one comes in pages; each says where the next begins."""
    documents = documents_wanted()
    found = await documents.find(document)
    if original:
        whole = _as_text(await documents.data(found))
        page = Excerpt(whole[start : start + _PAGE], len(whole), start + _PAGE if start + _PAGE < len(whole) else None)
    else:
        page = excerpt(await documents.items(found), start=start, limit=_PAGE)
    if page.next is None:
        return Text(text=page.text)
    return Text(text=f"{page.text}\n[{page.next} of {page.total} letters; go on with start={page.next}]")


def _as_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return b64encode(data).decode()


@tool(idempotent=True, untrusted=True, timeout=_READING)
async def table_figures(
    document: _Document,
    group_by: Annotated[str, Field(max_length=200, description="A column: the sums for each value in it.")] = "",
    sheet: Annotated[str, Field(max_length=200, description="Of a workbook with several sheets, the one meant.")] = "",
) -> Table:
    """Count in a table (xlsx, csv): for each column with numbers how many, their sum, mean, least and greatest.

    Of several columns with one name, the second is called `name (2)`.
    """
    documents = documents_wanted()
    found = await documents.find(document)
    table = _table_in(await documents.items(found), found.name, sheet)
    return await in_thread(figures, table, group_by=group_by)


def _table_in(items: Sequence[ContentItem], name: str, sheet: str) -> ContentItem:
    tables = [item for item in items if item.metadata.rows is not None]
    fitting = [item for item in tables if item.name.casefold() == sheet.casefold()] if sheet else tables
    if fitting:
        return fitting[0]
    there = ", ".join(item.name for item in tables) or "none"
    raise InvalidField(f"{name!r} has no such table; its tables are: {there}", field="sheet" if sheet else "document")


@tool(idempotent=True, output="file_ref", effects="write")
async def save_document(
    name: Annotated[str, Field(min_length=3, max_length=200, description="With extension, such as report.docx.")],
    content: Annotated[str, Field(max_length=2_000_000, description="Markdown; for xlsx and csv a table or CSV.")],
) -> dict[str, str]:
    """Save a document for the user: md, txt, csv, json, html, docx or xlsx, by the extension of its name."""
    documents_wanted()
    if not name.isprintable() or set(name) & set("/\\"):
        raise InvalidField(f"{name!r} is no name of a file; leave out folders", field="name")
    made = await in_thread(produce, name, content)
    body = b64encode(made.data).decode()
    return {"kind": "file_ref", "filename": name, "mime": made.mime, "bytes_b64": body}


DOCUMENT_TOOLS = (list_documents, read_document, table_figures, save_document)
