"""What the routes work with, in one frozen object that the composition root fills."""

from dataclasses import dataclass, field

from stellwerk.api.streaming import SharedFrames
from stellwerk.database.port import Database
from stellwerk.log.durable import DurableLog
from stellwerk.log.wake import Wakes
from stellwerk.runs.sessions import Sessions

LOCAL_TENANT = "local"
"""Whose everything is as long as there are no API keys."""


@dataclass(frozen=True, slots=True)
class Services:
    database: Database
    log: DurableLog
    wakes: Wakes
    sessions: Sessions
    shared: SharedFrames = field(default_factory=SharedFrames)
