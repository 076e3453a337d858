"""A saver on a real database, for one tenant."""

import pytest

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.database.port import Database

TENANT = "acme"


@pytest.fixture
async def saver(database: Database) -> DurableSaver:
    return DurableSaver(database, tenant=TENANT)
