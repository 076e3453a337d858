"""The UI message stream of the AI SDK (``useChat`` and others), and its messages."""
