"""Strict deserialisation of checkpoints: set before LangGraph is imported, or a crafted checkpoint can run code."""

import os

STRICT_MSGPACK = "LANGGRAPH_STRICT_MSGPACK"
os.environ[STRICT_MSGPACK] = "true"
