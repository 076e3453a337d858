"""Agents: a spec becomes a LangGraph graph, and a graph becomes something that can be run."""
