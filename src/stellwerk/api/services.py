"""What the routes work with, in one frozen object that the composition root fills."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from stellwerk.agents.tool_spec import DescribedTool
from stellwerk.api.overviews import Overviews
from stellwerk.api.streaming import SharedFrames
from stellwerk.api.telling import Tellings
from stellwerk.database.port import Database
from stellwerk.documents.numbers import FileNumbers
from stellwerk.documents.store import DocumentStore
from stellwerk.log.durable import DurableLog
from stellwerk.log.wake import Wakes
from stellwerk.runs.sessions import Sessions
from stellwerk.systems.registry import Systems
from stellwerk.workflows.workflows import Workflows

LOCAL_TENANT = "local"
"""Whose everything is as long as there are no API keys."""


@dataclass(frozen=True, slots=True)
class Services:
    database: Database
    log: DurableLog
    wakes: Wakes
    sessions: Sessions
    systems: Systems
    documents: DocumentStore
    numbers: FileNumbers
    overviews: Overviews
    workflows: Workflows
    tools: Callable[[], Awaitable[list[DescribedTool]]]
    """Everything that an agent system may name here."""
    shared: SharedFrames = field(default_factory=SharedFrames)
    tellings: Tellings = field(default_factory=Tellings)
