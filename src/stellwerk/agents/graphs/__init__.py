"""The operator's own LangGraph graphs: found, imported, checked and recompiled."""
