"""Checkpoints are read strictly: LangGraph must be told so before it is imported, or a crafted one can run code."""

import os

STRICT_MSGPACK = "LANGGRAPH_STRICT_MSGPACK"
os.environ[STRICT_MSGPACK] = "true"
