"""Builds the console into the package, if anything that it is made of has changed since the last time.

``python console/build.py`` for ``make console`` and ``make run``; the wheel is built with it, too. It needs nothing but
Python's own library, and Node with npm: the machine's, or that of the wheel which ``make node`` installs. Without
Node it says so and ends with 3, and what is there stays as it is.
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


def stands(stamp: Path, wanted: str) -> bool:
    return stamp.is_file() and stamp.read_text("ascii") == wanted


def search_path() -> str:
    """Node's wheel is only looked at where the machine has none."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), sysconfig.get_path("scripts")])


def npm_found() -> str:
    program = shutil.which("npm", path=search_path())
    if program is None:
        raise FileNotFoundError("npm")
    return program


def npm(*arguments: str) -> None:
    subprocess.run([npm_found(), *arguments], cwd=ROOT, check=True, env={**os.environ, "PATH": search_path()})


def install() -> None:
    wanted, _ = digest(*PACKAGES), npm_found()
    if not stands(INSTALLED, wanted):
        say("fetching what it is made of (npm ci) …")
        npm("ci", "--no-audit", "--no-fund", "--loglevel=error")
        INSTALLED.write_text(wanted, "ascii")


def build() -> None:
    wanted = digest(*PACKAGES, *SOURCES)
    if BUILT.is_file() and stands(STAMP, wanted):
        return
    install()
    say("building …")
    npm("run", "--silent", "build", "--workspace", "console", "--", "--logLevel", "warn")
    STAMP.write_text(wanted, "ascii")
    say(f"built into {BUILT.parent.relative_to(ROOT)}")


def main(arguments: list[str]) -> int:
    try:
        if arguments == ["check"]:
            install()
            for script in ("check", "test"):
                npm("run", "--silent", script, "--workspaces", "--if-present")
        build()
    except FileNotFoundError:
        say("there is no Node here, so it is not built; the API works without it")
        return NO_NODE
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
