"""File numbers: a whole number for each document of a tenant, for clients that name their files so.

A number is a name and no right: it is looked up among the caller's own documents.
"""

from collections.abc import Collection

import msgspec

from stellwerk.database.port import Database


class FileNumbers:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, tenant: str, document_ids: Collection[str]) -> dict[str, int]:
        names = msgspec.json.encode(list(document_ids)).decode()
        return dict(await self._database.read(lambda tx: tx.rows("numbers_of_documents", tenant, names)))

    async def documents(self, tenant: str, numbers: Collection[int]) -> dict[int, str]:
        """Those numbers that are documents of this tenant."""
        named = msgspec.json.encode(list(numbers)).decode()
        return dict(await self._database.read(lambda tx: tx.rows("documents_of_numbers", tenant, named)))
