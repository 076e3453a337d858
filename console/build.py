"""Builds the console into the package if one of its sources has changed since the last build.

``make console``, ``make run`` and the build of the wheel run ``python console/build.py``. It needs the standard
library, and Node with npm: installed on the machine, or by ``make node`` as a wheel. Without Node it prints a message,
exits with 3 and leaves an existing build unchanged.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "src/stellwerk/console/index.html"
STAMP = ROOT / "console/.built"
CLIENTS = ROOT / "tests/protocols/clients"
INSTALLED = ROOT / "node_modules/.installed-from"
PACKAGES = ("package.json", "package-lock.json", "console/package.json", "clients/typescript/package.json")
SOURCES = (
    "console/index.html",
    "console/vite.config.ts",
    "console/tsconfig.json",
    "console/src",
    "clients/typescript/src",
)
NO_NODE = 3


def say(text: str) -> None:
    sys.stderr.write(f"console: {text}\n")


def digest(*names: str) -> str:
    found = hashlib.sha256()
    for path in sorted(path for name in names for path in (ROOT / name, *(ROOT / name).rglob("*")) if path.is_file()):
        found.update(f"{path.relative_to(ROOT).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def is_current(stamp: Path, wanted: str) -> bool:
    return stamp.is_file() and stamp.read_text("ascii") == wanted


def search_path() -> str:
    """The machine's own Node comes first, then that of the wheel."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), sysconfig.get_path("scripts")])


def npm_found() -> str:
    program = shutil.which("npm", path=search_path())
    if program is None:
        raise FileNotFoundError("npm")
    return program


def npm(*arguments: str, folder: Path = ROOT) -> None:
    subprocess.run([npm_found(), *arguments], cwd=folder, check=True, env={**os.environ, "PATH": search_path()})


def install() -> None:
    wanted, _ = digest(*PACKAGES), npm_found()
    if not is_current(INSTALLED, wanted):
        say("installing its packages (npm ci) …")
        npm("ci", "--no-audit", "--no-fund", "--loglevel=error")
        INSTALLED.write_text(wanted, "ascii")


def install_clients() -> None:
    """The clients of other protocols that the tests drive: packages of others, unchanged."""
    installed = CLIENTS / "node_modules/.installed-from"
    wanted = digest(*(f"{CLIENTS.relative_to(ROOT)}/package{name}.json" for name in ("", "-lock")))
    if not is_current(installed, wanted):
        say("installing the clients of other protocols (npm ci) …")
        npm("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", folder=CLIENTS)
        installed.write_text(wanted, "ascii")


def build() -> None:
    wanted = digest(*PACKAGES, *SOURCES)
    if BUILT.is_file() and is_current(STAMP, wanted):
        return
    install()
    say("building …")
    npm("run", "--silent", "build", "--workspace", "console", "--", "--logLevel", "warn")
    STAMP.write_text(wanted, "ascii")
    say(f"built into {BUILT.parent.relative_to(ROOT)}")


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["clients"]:
            install_clients()
            return 0
        if arguments == ["check"]:
            install()
            for script in ("check", "test"):
                npm("run", "--silent", script, "--workspaces", "--if-present")
        build()
    except FileNotFoundError:
        say("Node is not installed, so the console is not built; the API works without it")
        return NO_NODE
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
