"""Images, described by what their first bytes say; nobody looks at the picture."""

import struct

from stellwerk.documents.contents import ContentItem
from stellwerk.documents.reading.kinds import IMAGES
from stellwerk.documents.reading.source import Source, make_item
from stellwerk.documents.reading.summaries import bytes_said
from stellwerk.errors import ExtractionError

Size = tuple[int, int] | None
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The segments of a JPEG that say how large it is."""


def read_image(source: Source) -> list[ContentItem]:
    data = source.data
    form = next((name for magic, name in IMAGES.items() if data.startswith(magic)), "webp")
    try:
        size = _size(data, form)
    except (struct.error, IndexError) as error:
        raise ExtractionError("document_corrupt", f"a {form} that ends before it has begun") from error
    measured = f"{size[0]} × {size[1]} pixels, " if size else ""
    summary = f"Image, {form.upper()}, {measured}{bytes_said(len(data))}"
    width, height = size or (None, None)
    return [make_item(source, f"image/{form}", "", summary, width=width, height=height)]


def _size(data: bytes, form: str) -> Size:
    match form:
        case "png":
            return _pair(">II", data, 16)
        case "gif":
            return _pair("<HH", data, 6)
        case "bmp":
            return _pair("<ii", data, 18)
        case "jpeg":
            return _jpeg(data)
        case "webp" if data[12:16] == b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case _:
            return None


def _pair(layout: str, data: bytes, offset: int) -> tuple[int, int]:
    first, second = struct.unpack_from(layout, data, offset)
    return int(first), abs(int(second))


def _jpeg(data: bytes) -> Size:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return int(width), int(height)
        at += 2 + int(struct.unpack_from(">H", data, at + 2)[0])
    return None
