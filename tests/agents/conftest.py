"""A saver on a real database, for one tenant."""

import pytest

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.database.sqlite import Sqlite

TENANT = "acme"


@pytest.fixture
async def saver(database: Sqlite) -> DurableSaver:
    return DurableSaver(database, tenant=TENANT)
