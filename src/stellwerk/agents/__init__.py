"""Agents: from a description to a running graph, on LangChain and LangGraph; the only room that knows them."""

import stellwerk.langgraph_env as _before_langgraph  # noqa: F401  and little else: every tool's process imports this
