"""Memory: checkpoints that live as long as the process, for runs without a server."""

from langgraph.checkpoint.memory import InMemorySaver

from stellwerk.agents.checkpoint_serde import StrictSerializer


def memory_saver() -> InMemorySaver:
    """As strict as the server's own, so that a graph that runs here runs there."""
    return InMemorySaver(serde=StrictSerializer())
