"""What is being read, and the items made of it: how much text there may be is decided here alone."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from stellwerk.documents.contents import INLINE, ContentItem, ItemMetadata
from stellwerk.documents.reading.summaries import counted

TEXT = 12_000_000
"""Letters that are extracted from one document, all items together."""
_LONGEST_NAME = 200

Reader = Callable[["Source"], list[ContentItem]]


@dataclass
class Allowance:
    left: int = TEXT

    def take(self, text: str) -> tuple[str, bool]:
        """As much as is allowed, and whether that is not all of it."""
        taken = text[: self.left]
        self.left -= len(taken)
        return taken, len(taken) < len(text)


@dataclass(frozen=True)
class Source:
    """The bytes of a document, or of a file inside of it."""

    data: bytes
    name: str
    """Without extension; empty for the document itself, whose name the child is not told."""
    ext: str
    allowance: Allowance = field(default_factory=Allowance)
    inside: bool = False
    """Whether it was found in an archive or a mail: such are read, but what is packed in them is not."""

    def member(self, path: str, data: bytes) -> "Source":
        name, ext = split_name(path)
        return Source(data, name, ext, self.allowance, inside=True)


def split_name(path: str) -> tuple[str, str]:
    """Name and extension of what an archive or a mail calls ``path``; nothing in it leads upwards or away."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    shown = "".join(letter for letter in "/".join(parts) if letter.isprintable())[-_LONGEST_NAME:]
    pure = PurePosixPath(shown or "unnamed")
    ext = pure.suffix.lstrip(".").lower()
    return (shown.removesuffix(pure.suffix) if ext else str(pure)), ext


def make_item(source: Source, mime: str, text: str, summary: str, **about: Any) -> ContentItem:
    """``about`` may have name and ext of their own, ``data`` (text, bytes or None), and whatever metadata know."""
    data = about.pop("data", source.data)
    name, ext = about.pop("name", source.name), about.pop("ext", source.ext)
    taken, cut = source.allowance.take(text)
    if cut:
        about["truncated"] = True
        summary = f"{summary.rstrip('.')}; only the first {counted(len(taken), 'letter')} of it are here"
    about.setdefault("size", len(data) if isinstance(data, bytes) else None)
    kept = base64.b64encode(data).decode() if isinstance(data, bytes) and len(data) <= INLINE * 3 // 4 else data
    metadata = ItemMetadata(
        is_text=isinstance(data, str), base64_encoded=isinstance(data, bytes), ai_processed=False, **about
    )
    return ContentItem(
        sequence_nr=0,
        name=name,
        ext=ext,
        content_type=mime,
        data=kept if isinstance(kept, str) and len(kept) <= INLINE else None,
        data_extracted=taken,
        metadata=metadata,
        summary=summary,
    )


def numbered(items: Sequence[ContentItem]) -> list[ContentItem]:
    return [replace(item, sequence_nr=number) for number, item in enumerate(items, 1)]
