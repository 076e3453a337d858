"""Where LangGraph's store is, by the settings: with the tables of PostgreSQL, or in files of each tenant."""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from stellwerk.agents.store.index import Index
from stellwerk.database.port import Database
from stellwerk.errors import SettingsError
from stellwerk.settings import Settings
from stellwerk.spec.operator import StoreTtl

if TYPE_CHECKING:
    from stellwerk.agents.store.postgres import PostgresStore


async def shared_store(
    settings: Settings, database: Database, index: Index | None, ttl: StoreTtl, opened: AsyncExitStack
) -> "PostgresStore | None":
    """The store of all tenants; None where each tenant has files.

    Raises:
        SettingsError: a package or pgvector is missing.
    """
    if settings.database is None:
        return None
    try:
        from stellwerk.agents.store.postgres import open_postgres_store
        from stellwerk.database.postgres import options_of
    except ImportError as error:
        raise SettingsError(
            f"PostgreSQL needs a package that is not installed: {error}; pip install 'path/to/stellwerk[postgres]'"
        ) from error
    options = options_of(settings.database.get_secret_value())
    return await opened.enter_async_context(open_postgres_store(options, database.locked, index, ttl))
