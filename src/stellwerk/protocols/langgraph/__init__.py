"""LangGraph's API: assistants, threads, runs, store and the thread protocol, answered from the log."""
