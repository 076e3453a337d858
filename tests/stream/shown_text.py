"""What a client of each dialect shows in the end, once everything that was taken back is gone: for property tests."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from stellwerk.dialects.base import Chunk, Dialect, translate
from stellwerk.envelope.model import Envelope

_WORD = re.compile(r"word-\S+")


def words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in _WORD.findall(text)]


def _chunks(dialect: Dialect, log: Sequence[Envelope]) -> Iterator[Chunk]:
    return (chunk for _, chunk in translate(dialect.translator("session"), enumerate(log, start=1)))


def of_chunks(dialect: Dialect, log: Sequence[Envelope]) -> list[str]:
    """Previews are settled by the text of the same message, or aborted."""
    previews: dict[str, str] = {}
    texts: list[str] = []
    for line in _chunks(dialect, log):
        message_id = str(line.get("message_id"))
        match line["type"]:
            case "text_delta":
                previews[message_id] = previews.get(message_id, "") + line["data"]
            case "text_step" | "text_final":
                previews.pop(message_id, None)
                texts.append(str(line["data"]))
            case "aborted":
                previews.pop(message_id, None)
    return [*texts, *previews.values()]


def of_events(dialect: Dialect, log: Sequence[Envelope]) -> list[str]:
    return [str(line["payload"]["text"]) for line in _chunks(dialect, log) if line["type"] == "text_message"]


def of_agui(dialect: Dialect, log: Sequence[Envelope]) -> list[str]:
    """Deltas are joined by message; a snapshot replaces all messages."""
    messages: dict[str, str] = {}
    for event in _chunks(dialect, log):
        match event["type"]:
            case "TEXT_MESSAGE_CONTENT":
                messages[event["messageId"]] = messages.get(event["messageId"], "") + event["delta"]
            case "MESSAGES_SNAPSHOT":
                messages = {m["id"]: str(m.get("content")) for m in event["messages"] if m["role"] == "assistant"}
    return list(messages.values())


def of_langgraph(dialect: Dialect, log: Sequence[Envelope]) -> list[str]:
    """Chunks are joined by id and graph; values replace all messages of their graph."""
    graphs: dict[str, dict[str, str]] = {}
    for chunk in _chunks(dialect, log):
        mode, _, space = str(chunk["event"]).partition("|")
        if mode == "messages":
            message, about = chunk["data"]
            spoken = graphs.setdefault(about.get("langgraph_checkpoint_ns") or "", {})
            spoken[message["id"]] = spoken.get(message["id"], "") + str(message["content"])
        elif mode == "values" and isinstance(chunk["data"].get("messages"), list):
            told = [message for message in chunk["data"]["messages"] if message["type"] == "ai"]
            graphs[space] = {message["id"]: str(message["content"]) for message in told}
    return [text for spoken in graphs.values() for text in spoken.values()]


def of_langgraph_threads(dialect: Dialect, log: Sequence[Envelope]) -> list[str]:
    """Blocks are joined by message, values tell it whole; one that ends in an error is gone."""
    messages: dict[str, str] = {}
    for event in _chunks(dialect, log):
        found: dict[str, Any] = event["params"]["data"]
        if event["method"] == "values" and not event["params"]["namespace"]:
            messages |= {m["id"]: str(m["content"]) for m in found.get("messages", ()) if m["type"] == "ai"}
        if event["method"] != "messages":
            continue
        match found["event"]:
            case "content-block-delta" if "text" in found["delta"]:
                messages[found["message_id"]] = messages.get(found["message_id"], "") + found["delta"]["text"]
            case "error":
                messages.pop(found["message_id"], None)
    return list(messages.values())


def of_ai_sdk(dialect: Dialect, log: Sequence[Envelope]) -> list[str]:
    """Deltas are joined by part. A client is told of parts that do not count, and cannot drop them."""
    parts: dict[str, str] = {}
    for chunk in _chunks(dialect, log):
        if chunk["type"] == "text-delta":
            parts[chunk["id"]] = parts.get(chunk["id"], "") + chunk["delta"]
    return list(parts.values())


def of_completions(dialect: Dialect, log: Sequence[Envelope]) -> list[str]:
    """The content is one text for each completion."""
    contents: dict[str, str] = {}
    for chunk in _chunks(dialect, log):
        for choice in chunk.get("choices", ()):
            contents[chunk["id"]] = contents.get(chunk["id"], "") + (choice["delta"].get("content") or "")
    return list(contents.values())


def of_responses(dialect: Dialect, log: Sequence[Envelope]) -> list[str]:
    """Deltas are joined by item."""
    items: dict[str, str] = {}
    for event in _chunks(dialect, log):
        if event["type"] == "response.output_text.delta":
            items[event["item_id"]] = items.get(event["item_id"], "") + event["delta"]
    return list(items.values())


SHOWN: dict[str, Callable[[Dialect, Sequence[Envelope]], list[str]]] = {
    "chunks": of_chunks,
    "chunks-live": of_chunks,
    "events": of_events,
    "ag-ui": of_agui,
    "ai-sdk": of_ai_sdk,
    "langgraph": of_langgraph,
    "langgraph-threads": of_langgraph_threads,
    "openai-completions": of_completions,
    "openai-responses": of_responses,
}
