"""Which user a graph runs for, where LangGraph's graphs look for it.

``config["configurable"]["user_id"]`` is the user of the session. A graph whose
context schema has a field ``user_id`` gets it in its context, too.
"""

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel

from stellwerk.agents.graph_types import hints_of

USER_ID = "user_id"
USER_REMEDY = (
    "its sessions share what it keeps under the default of its user_id; send user_id with POST /sessions, "
    "or give each user an API key or token of their own"
)


def wants_user_id(graph: Pregel[Any, Any, Any, Any]) -> bool:
    """Whether the graph says by its context schema (``config_schema`` of old) that it reads a user id."""
    return USER_ID in hints_of(graph.context_schema)


def context_of(graph: Pregel[Any, Any, Any, Any], config: RunnableConfig) -> dict[str, Any] | None:
    """What the graph is called with as its context; None if it has no schema for one."""
    if graph.context_schema is None:
        return None
    user_id = (config.get("configurable") or {}).get(USER_ID)
    return {USER_ID: user_id} if user_id is not None and wants_user_id(graph) else {}
