"""Images of a message: which of them a model is sent, and in which form.

A message to an agent of ours holds a reference in its metadata; middleware inserts the image just
before each model call, so neither log nor state has a copy. A graph of the operator reads its
messages itself: its message holds the image, and its checkpoints hold it once.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage

from stellwerk.agents.runtime.context import SessionDocuments, run_context
from stellwerk.envelope.introspection import document_id_of, sniff
from stellwerk.envelope.payloads import FilePart

NOTE = "stellwerk_images"
"""In the metadata of a message: document_id, MIME type and size of each of its images."""
NOT_SHOWN = "images_not_shown"
"""The code of the warning about images that are not sent to a model."""
LARGEST_IMAGE = 3_750_000
"""Bytes: 5 MB as base64, the lowest limit among the large providers."""
LARGEST_REQUEST = 15_000_000
"""Bytes of all images in one model call: 20 MB as base64. The latest have precedence."""
MOST_IMAGES = 20
"""In one model call."""
Spoken = TypeVar("Spoken", bound=BaseMessage)


@dataclass(frozen=True, slots=True)
class ImageInput:
    """How an agent takes images."""

    form: Literal["none", "reference", "content"] = "none"
    """A reference that middleware replaces, content of the message itself, or not at all."""
    why_not: str = "it takes no images"
    """For ``none``: the reason, and what to do."""


def image_input(graph: str, form: str, *, takes_images: bool) -> ImageInput:
    """How a graph of the operator takes images."""
    if form != "messages":
        return ImageInput("none", f"the graph {graph!r} takes text only")
    if takes_images:
        return ImageInput("content")
    remedy = "if its models do, name it under graph_images in the operator's file"
    return ImageInput("none", f"the graph {graph!r} is not said to take images; {remedy}")


@dataclass
class _RequestRoom:
    """How many images, and how many bytes of them, still fit into one model call."""

    images: int = MOST_IMAGES
    size: int = LARGEST_REQUEST

    def takes(self, size: int) -> bool:
        if not self.images or size > self.size:
            return False
        self.images -= 1
        self.size -= size
        return True


def takes_images(model: BaseChatModel) -> bool:
    """According to LangChain's profile of the model, or to its spec."""
    return bool((model.profile or {}).get("image_inputs"))


async def message_with_images(
    text: str, message_id: str, files: Iterable[FilePart], images: ImageInput, left_out: list[str]
) -> HumanMessage:
    """The message with the images among its files; ``left_out`` gets the others, each with why."""
    pictures = [file for file in files if file.mime.startswith("image/")]
    documents = run_context().documents
    if images.form == "none" or documents is None:
        left_out += [f"{file.filename}: {images.why_not}" for file in pictures]
        return HumanMessage(text, id=message_id)
    notes: list[dict[str, Any]] = []
    blocks: list[str | dict[str, Any]] = [{"type": "text", "text": text}]
    room = _RequestRoom()
    for file in pictures:
        found = await _read_image(file, documents, room)
        if isinstance(found, str):
            left_out.append(f"{file.filename}: {found}")
        else:
            mime, data = found
            notes.append({"id": file.document_id, "mime": mime, "size": len(data)})
            blocks.append(_block(file.document_id, mime, data))
    if not notes:
        return HumanMessage(text, id=message_id)
    if images.form == "content":
        return HumanMessage(blocks, id=message_id)
    return HumanMessage(text, id=message_id, response_metadata={NOTE: notes})


async def _read_image(file: FilePart, documents: SessionDocuments, room: _RequestRoom) -> tuple[str, bytes] | str:
    """The MIME type and the bytes of the image, or why it cannot be shown."""
    size = await documents.size(file.document_id)
    if size is None:
        return "its file is gone"
    if size > LARGEST_IMAGE:
        most = f"{LARGEST_IMAGE / 1e6} MB is the most for one image"
        return f"it has {size / 1e6:.1f} MB, and {most}; send a smaller one"
    if not room.takes(size):
        most = f"{MOST_IMAGES} images and {LARGEST_REQUEST // 1_000_000} MB"
        return f"{most} are the most for one message; send it alone"
    data = await documents.original(file.document_id) or b""
    mime = _mime(data)
    if mime is None:
        return "it is no PNG, JPEG, GIF or WebP image, the kinds that models take"
    return mime, data


def _block(document_id: str, mime: str, data: bytes) -> dict[str, Any]:
    """A content block of LangChain; its id is that of the document."""
    encoded = b64encode(data).decode()
    return {"type": "image", "id": document_id, "mime_type": mime, "base64": encoded}


async def with_images(messages: list[AnyMessage]) -> list[AnyMessage]:
    """The conversation with the images that its messages refer to, the latest that fit."""
    documents = run_context().documents
    if documents is None:
        return messages
    room = _RequestRoom()
    found: list[AnyMessage] = []
    for message in reversed(messages):
        blocks: list[dict[str, Any]] = []
        for note in message.response_metadata.get(NOTE, ()):
            data = await documents.original(note["id"]) if room.takes(note["size"]) else None
            if data is not None:
                blocks.append(_block(note["id"], note["mime"], data))
        if blocks:
            text = {"type": "text", "text": str(message.text)}
            message = message.model_copy(update={"content": [text, *blocks]})
        found.append(message)
    return found[::-1]


def _mime(data: bytes) -> str | None:
    """By the first bytes: the file name may be wrong, and a provider rejects anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    found = sniff(data)
    return found if found.startswith("image/") else None


def without_data(content: Any) -> Any:
    """The content of a message for the log, with references to documents in place of images."""
    return [_reference(block) for block in content] if isinstance(content, list) else content


def _reference(block: Any) -> Any:
    """LangChain gives callbacks each image as a data URL, whatever its block was."""
    match block:
        case {"type": "image", "base64": str(encoded)}:
            mime = block.get("mime_type")
        case {"image_url": {"url": str(url)} | str(url)} if url.startswith("data:") and ";base64," in url:
            mime, _, encoded = url.removeprefix("data:").partition(";base64,")
        case _:
            return block
    try:
        document_id = document_id_of(sha256(b64decode(encoded)).digest())
    except ValueError:  # a graph made it, and it is no base64
        return {"type": "image", "mime_type": mime}
    return {"type": "image", "mime_type": mime, "document_id": document_id}


def without_image(message: Spoken, document_id: str) -> Spoken:
    """The message without one of its images; the same object if it has none."""
    changes: dict[str, Any] = {}
    content = message.content
    if isinstance(content, list):
        image = {"type": "image", "id": document_id}
        kept = [block for block in content if not (isinstance(block, dict) and block.items() >= image.items())]
        if len(kept) < len(content):
            changes["content"] = kept
    notes = message.response_metadata.get(NOTE, [])
    left = [note for note in notes if note["id"] != document_id]
    if len(left) < len(notes):
        changes["response_metadata"] = {**message.response_metadata, NOTE: left}
    return message.model_copy(update=changes) if changes else message
