"""LangGraph checkpoints in the log's own database."""
