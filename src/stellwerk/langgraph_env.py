"""Strict deserialisation, set before LangGraph is imported: no crafted checkpoint can run code."""

import os

STRICT_MSGPACK = "LANGGRAPH_STRICT_MSGPACK"
os.environ[STRICT_MSGPACK] = "true"
