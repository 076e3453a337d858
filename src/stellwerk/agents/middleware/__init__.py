"""The settings of an agent as middleware: one file per concern, put in order by ``assembly``.

Whatever is counted for one input (steps, tool calls, rounds of validation, tool results) is read from the
conversation. It is stored with every checkpoint, so an interrupt, a crash or a second process changes no count,
and there is nothing to reset. Hooks that wrap a call are preferred to hooks that are nodes: each node is one more
checkpoint for every model call.
"""
