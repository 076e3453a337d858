"""Images that come with a message: which of them a model is shown, and in which form.

An agent of ours keeps a reference in the message's metadata, and its middleware
puts the image into the request just before each model call, so that neither log
nor state holds a copy. A graph of the operator's reads its messages itself, so
its message holds the image, and its checkpoints hold it once.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, TypeGuard, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage

from stellwerk.agents.documents import SessionDocuments, documents_here
from stellwerk.envelope.payloads import FilePart
from stellwerk.envelope.shapes import document_id_of
from stellwerk.spec.model import ModelSpec

NOTE = "stellwerk_images"
"""In the metadata of a message: document_id, MIME type and size of each image that goes with it."""
NOT_SHOWN = "images_not_shown"
"""Code of the warning about images that no model is sent."""
LARGEST_IMAGE = 3_750_000
"""Bytes: 5 MB as base64, the least that one of the large providers takes."""
LARGEST_REQUEST = 15_000_000
"""Bytes of all images in one model call: 20 MB as base64. The latest go first."""
MOST_IMAGES = 20
"""In one model call."""
_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}

_DATA_URL = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)

Spoken = TypeVar("Spoken", bound=BaseMessage)
Form = Literal["none", "reference", "content"]


@dataclass(frozen=True, slots=True)
class ImageInput:
    """How an agent takes images."""

    form: Form = "none"
    """A reference that its middleware replaces, content of the message itself, or not at all."""
    why_not: str = "it takes no images"
    """For ``none``: the reason, and what to do."""


@dataclass(frozen=True, slots=True)
class Image:
    document_id: str
    mime: str
    data: bytes

    def block(self) -> dict[str, Any]:
        """A content block of LangChain; its id is that of the document."""
        encoded = b64encode(self.data).decode()
        return {"type": "image", "id": self.document_id, "mime_type": self.mime, "base64": encoded}


@dataclass
class _Room:
    """What still fits into one model call."""

    images: int = MOST_IMAGES
    size: int = LARGEST_REQUEST

    def takes(self, size: int) -> bool:
        if not self.images or size > self.size:
            return False
        self.images -= 1
        self.size -= size
        return True


@dataclass(frozen=True, slots=True)
class Attached:
    """The images of one message."""

    shown: Sequence[Image] = ()
    left_out: Sequence[str] = ()
    """For each image that no model is sent: its name and the reason."""

    @property
    def warning(self) -> str:
        return "; ".join(f"The model is not shown {each}" for each in self.left_out)

    def message(self, text: str, message_id: str, form: Form) -> HumanMessage:
        if not self.shown:
            return HumanMessage(text, id=message_id)
        if form == "content":
            blocks: list[str | dict[str, Any]] = [{"type": "text", "text": text}]
            return HumanMessage([*blocks, *(image.block() for image in self.shown)], id=message_id)
        notes = [{"id": each.document_id, "mime": each.mime, "size": len(each.data)} for each in self.shown]
        return HumanMessage(text, id=message_id, response_metadata={NOTE: notes})


def takes_images(model: BaseChatModel) -> bool:
    """By the profile that LangChain has of the model, or that its spec sets."""
    return bool((model.profile or {}).get("image_inputs"))


def image_input(spec: ModelSpec, model: BaseChatModel) -> ImageInput:
    """For an agent of ours with this model."""
    if takes_images(model):
        return ImageInput("reference")
    known = "takes no images" if "image_inputs" in (model.profile or {}) else "is not known to take images"
    return ImageInput(
        "none",
        f"the model {spec.model!r} of {spec.provider!r} {known}; choose one that does, "
        "or write `images: true` at the agent's model if this one does",
    )


async def attached(files: Iterable[FilePart], images: ImageInput) -> Attached:
    """Look at the images among the files of a message."""
    pictures, documents = [file for file in files if file.mime.startswith("image/")], documents_here()
    if images.form == "none" or documents is None:
        return Attached(left_out=[f"{file.filename}: {images.why_not}" for file in pictures])
    shown: list[Image] = []
    left_out: list[str] = []
    room = _Room()
    for file in pictures:
        found = await _image(file, documents, room)
        if isinstance(found, Image):
            shown.append(found)
        else:
            left_out.append(f"{file.filename}: {found}")
    return Attached(shown, left_out)


async def _image(file: FilePart, documents: SessionDocuments, room: _Room) -> Image | str:
    """The image, or why it cannot be shown."""
    size = await documents.size(file.document_id)
    if size is None:
        return "its file is gone"
    if size > LARGEST_IMAGE:
        return f"it has {size / 1e6:.1f} MB, and {LARGEST_IMAGE / 1e6} MB is the most for one image; send a smaller one"
    if not room.takes(size):
        return f"{MOST_IMAGES} images and {LARGEST_REQUEST // 1_000_000} MB are the most for one message; send it alone"
    data = await documents.original(file.document_id)
    mime = None if data is None else _mime(data)
    if data is None or mime is None:
        return "it is no PNG, JPEG, GIF or WebP image, the kinds that models take"
    return Image(file.document_id, mime, data)


def _mime(data: bytes) -> str | None:
    """By the first bytes: the name of a file may say something else, and a provider refuses what is none."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for magic, mime in _MAGIC.items() if data.startswith(magic)), None)


async def with_images(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The same conversation with the images that its messages refer to, the latest first as far as there is room."""
    documents, room = documents_here(), _Room()
    if documents is None:
        return list(messages)
    found = [await _with_images(message, documents, room) for message in reversed(messages)]
    return found[::-1]


async def _with_images(message: AnyMessage, documents: SessionDocuments, room: _Room) -> AnyMessage:
    notes = message.response_metadata.get(NOTE, ()) if isinstance(message, HumanMessage) else ()
    images: list[Image] = []
    for note in notes:
        if room.takes(note["size"]) and (data := await documents.original(note["id"])) is not None:
            images.append(Image(note["id"], note["mime"], data))
    if not images:
        return message
    text = {"type": "text", "text": str(message.text)}
    return message.model_copy(update={"content": [text, *(image.block() for image in images)]})


def without_data(content: Any) -> Any:
    """The content of a message for the log: an image is named there by its document, and not repeated."""
    if not isinstance(content, list):
        return content
    return [_reference(block) for block in content]


def _reference(block: Any) -> Any:
    """LangChain shows callbacks an image as a data URL, whatever its block was."""
    if _is_image(block):
        mime, encoded = block.get("mime_type"), block["base64"]
    elif (found := _DATA_URL.fullmatch(_url_of(block))) is not None:
        mime, encoded = found.groups()
    else:
        return block
    try:
        document_id = document_id_of(sha256(b64decode(encoded)).digest())
    except ValueError:  # a graph made it, and it is no base64
        return {"type": "image", "mime_type": mime}
    return {"type": "image", "mime_type": mime, "document_id": document_id}


def _url_of(block: Any) -> str:
    address = block.get("image_url") if isinstance(block, dict) else None
    url = address.get("url") if isinstance(address, dict) else address
    return url if isinstance(url, str) else ""


def without_image(message: Spoken, document_id: str) -> Spoken:
    """The message without one of its images; the same object if it has none."""
    changes: dict[str, Any] = {}
    if isinstance(message.content, list):
        kept = [each for each in message.content if not (_is_image(each) and each.get("id") == document_id)]
        if len(kept) < len(message.content):
            changes["content"] = kept
    notes = message.response_metadata.get(NOTE, [])
    if any(note["id"] == document_id for note in notes):
        left = [note for note in notes if note["id"] != document_id]
        changes["response_metadata"] = {**message.response_metadata, NOTE: left}
    return message.model_copy(update=changes) if changes else message


def _is_image(block: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(block, dict) and block.get("type") == "image" and isinstance(block.get("base64"), str)
