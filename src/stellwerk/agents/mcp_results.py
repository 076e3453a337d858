"""What an MCP server gave back, in our terms: a value, and the files that it brings along."""

from base64 import b64decode
from typing import Any

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from stellwerk.envelope.shapes import Blob, make_blob

_ERROR_TEXT = 2000


def value_of(result: CallToolResult) -> tuple[Any, tuple[Blob, ...]]:
    """Structured content if there is any, else what the blocks say; files only by reference.

    Raises:
        ValueError: a file is not what it claims to be.
    """
    parts = [_part(block, number) for number, block in enumerate(result.content, 1)]
    files = tuple(part for part in parts if isinstance(part, Blob))
    told = result.structured_content
    if isinstance(told, dict) and told.keys() == {"result"} and isinstance(told["result"], str):
        told = told["result"]  # a server wraps what is no object, and a text is a text
    if told is not None:
        return ({"result": told, "files": [file.reference() for file in files]} if files else told), files
    if all(isinstance(part, str) for part in parts):
        return "\n".join(parts), files
    shown = [part.reference() if isinstance(part, Blob) else part for part in parts]
    return (shown[0] if len(shown) == 1 else {"content": shown}), files


def error_text(result: CallToolResult) -> str:
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    return "\n".join(texts)[:_ERROR_TEXT] or "an error without a text"


def _part(block: ContentBlock, number: int) -> Any:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return _file(block.data, block.mime_type, f"{block.type}-{number}")
        case ResourceLink():
            return block.model_dump(mode="json", by_alias=True, exclude_none=True)
        case EmbeddedResource(resource=BlobResourceContents() as file):
            return _file(file.blob, file.mime_type, file.uri.rpartition("/")[2])
        case EmbeddedResource():
            return getattr(block.resource, "text", "")


def _file(data: str, mime: str | None, name: str) -> Blob:
    return make_blob(b64decode(data, validate=True), mime=mime or "application/octet-stream", filename=name)
