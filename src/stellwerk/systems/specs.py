"""What the texts of registered systems say about the system as such, read once: reading one takes 15 ms."""

from stellwerk.database.port import Database
from stellwerk.errors import SpecError
from stellwerk.spec.load import read_system
from stellwerk.spec.model import SystemSpec
from stellwerk.threads import in_thread

_Key = tuple[str, str, int]


class Specs:
    """By the tenant whose rows they are in, name and version."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[_Key, SystemSpec] = {}
        self._forgotten = 0

    async def description(self, owner: str, name: str, version: int) -> str:
        """Empty if the system was withdrawn while we looked."""
        key = (owner, name, version)
        if key not in self._known:
            row = await self._database.read(lambda tx: tx.row("system_version", *key))
            return (await self._read(key, bytes(row[0]))).description if row else ""
        return self._known[key].description

    async def folders(self, owner: str, name: str) -> dict[int, str]:
        """Where each version keeps the to-do lists of its sessions."""
        rows = await self._database.read(lambda tx: tx.rows("system_bodies", owner, name))
        specs = {version: await self._read((owner, name, version), bytes(body)) for _, version, body in rows}
        return {version: spec.storage.checklist_dir for version, spec in specs.items()}

    def forget(self, owner: str, name: str) -> None:
        """The numbers of its versions may be given anew."""
        self._forgotten += 1
        for key in [key for key in self._known if key[:2] == (owner, name)]:
            del self._known[key]

    async def _read(self, key: _Key, body: bytes) -> SystemSpec:
        if key in self._known:
            return self._known[key]
        before = self._forgotten
        spec = await in_thread(_spec, key[1], body)
        if before == self._forgotten:  # else it may be what was withdrawn meanwhile
            self._known[key] = spec
        return spec


def _spec(name: str, body: bytes) -> SystemSpec:
    try:
        return read_system(body, source="").system.system
    except SpecError:  # of an older server, which took what this one refuses
        return SystemSpec(name=name)
