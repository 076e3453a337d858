"""The settings of an agent as LangChain middleware: a module per concern, ordered by ``build``.

Counts for one input (steps, tool calls, rounds of validation, tool results) are read from the
conversation. It is stored with every checkpoint, so an interrupt, a crash or another process
changes no count, and nothing has to be reset. Hooks that wrap a call are preferred to hooks that
are nodes: each node adds a checkpoint to every model call.
"""
