"""LangGraph's own stream protocols."""
