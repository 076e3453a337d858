"""Siblings: tool calls of one turn that are done, while another one waits for the user.

Their results are stored, but they are not in the conversation before the turn is over.
"""

from typing import Any

from langchain_core.messages import BaseMessage

# Private, but the only way to what LangGraph has stored of a step that is not over; a test of limits pins it.
from langgraph._internal._constants import CONFIG_KEY_CHECKPOINT_MAP, CONFIG_KEY_CHECKPOINTER, CONFIG_KEY_RESUMING
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config


async def finished_siblings() -> list[BaseMessage]:
    """What finished siblings of the tool call that runs here have said, if it goes on after a question or a crash."""
    here = get_config().get("configurable", {})
    saver = here.get(CONFIG_KEY_CHECKPOINTER)
    if not here.get(CONFIG_KEY_RESUMING) or not isinstance(saver, BaseCheckpointSaver):
        return []
    namespace = str(here.get("checkpoint_ns", "")).rpartition("|")[0]
    checkpoint = here.get(CONFIG_KEY_CHECKPOINT_MAP, {}).get(namespace)
    place = {"thread_id": here["thread_id"], "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
    saved = await saver.aget_tuple({"configurable": place})
    writes = (saved.pending_writes if saved else None) or []
    return [message for _, channel, value in writes if channel == "messages" for message in _messages(value)]


def _messages(value: Any) -> list[BaseMessage]:
    return [found for found in (value if isinstance(value, list) else [value]) if isinstance(found, BaseMessage)]
