"""Agents: from a description to a running graph, on LangChain and LangGraph; the only room that knows them."""

# Before anything here imports LangGraph: its reader of checkpoints is strict only if it is told so by then.
import stellwerk.settings as _strict  # noqa: F401
from stellwerk.logs import leave_to_the_host

leave_to_the_host()
