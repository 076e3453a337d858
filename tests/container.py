"""Containerfiles without a container engine: parsed, and performed by real commands in roots that begin empty.

A stage is a folder that ``chroot`` makes the root of its commands. This machine takes the place of the base image: the
folders of its programs, read-only, without Node and compilers. Everything else is there only if a step put it there.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from tests.forked import surroundings

BASES = ("python:3.12-slim",)
_PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "opt")
_ABSENT = ("node", "npm", "npx", "cc", "gcc", "c++", "g++", "clang", "make")
_PATH = f"{sys.base_prefix}/bin:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
_HOME = "/mnt/home"
"""Of whoever builds: the settings and caches of pip, uv and npm."""
_NOT_HANDED_ON = ("PATH", "HOME", "TMPDIR", "VIRTUAL_ENV", "PYTHON", "STELLWERK", "SSL_CERT", "LD_", "GIT_")
_LOOPBACK_UP = """
import fcntl, socket, struct
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))
"""


@dataclass
class Stage:
    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    """Each instruction and what follows it, in their order."""


def parsed(text: str) -> list[Stage]:
    stages: list[Stage] = []
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    for line in filter(None, map(str.strip, lines)):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(base, name or f"stage-{len(stages)}"))
        else:
            stages[-1].steps.append((word, rest.strip()))
    return stages


def context(folder: Path) -> list[str]:
    """What a fresh clone would send to the builder: the files that Git knows, without those of .dockerignore."""
    listed = ["git", "-C", str(folder), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines()
    rules = (folder / ".dockerignore").read_text("utf-8").splitlines()
    wanted = [rule for rule in rules if rule and not rule.startswith("#")]
    return [name for name in names if (folder / name).is_file() and not _ignored(name, wanted)]


def _ignored(name: str, rules: Iterable[str]) -> bool:
    ignored = False
    parts = name.split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    for rule in rules:
        pattern = rule.removeprefix("!").removeprefix("**/")
        if any(fnmatch(path, pattern) or fnmatch(path, f"*/{pattern}") for path in above):
            ignored = not rule.startswith("!")
    return ignored


def copied(stage: Stage, sources: Path, folder: Path) -> None:
    """What a stage copies from the build context to its working folder, and nothing else."""
    image = Image(folder)
    for word, rest in stage.steps:
        if word == "COPY":
            Build(sources, folder).copy(image, rest.split())


class Build:
    """The stages of one Containerfile, each in a folder below ``roots``."""

    def __init__(self, sources: Path, roots: Path) -> None:
        self._sources, self._roots = sources, roots
        self._images: dict[str, Image] = {}

    def perform(self, stage: Stage) -> "Image":
        root = self._roots / stage.name
        if stage.base in BASES:
            image = Image(root)
            image.lay_out()
        else:
            earlier = self._images[stage.base]
            subprocess.run(["cp", "-al", earlier.root, root], check=True)
            image = Image(root, earlier.folder, earlier.user, dict(earlier.environment))
        for word, rest in stage.steps:
            self._step(image, word, rest)
        self._images[stage.name] = image
        return image

    def _step(self, image: "Image", word: str, rest: str) -> None:
        match word:
            case "RUN":
                image.run(["sh", "-ec", rest])
            case "COPY":
                self.copy(image, rest.split())
            case "ENV":
                for name, value in (pair.split("=", 1) for pair in shlex.split(rest)):
                    image.environment[name] = value.replace("$PATH", image.environment["PATH"])
            case "WORKDIR":
                image.folder = rest
                image.inside(rest).mkdir(parents=True, exist_ok=True)
            case "USER":
                image.user = rest
            case "ENTRYPOINT" | "CMD":
                image.words[word] = json.loads(rest)
            case "HEALTHCHECK":
                image.words[word] = json.loads(rest.removeprefix("CMD "))
            case "VOLUME" | "EXPOSE" | "STOPSIGNAL":
                image.words[word] = [rest]
            case _:
                raise NotImplementedError(f"{word} {rest}")

    def copy(self, image: "Image", words: Sequence[str]) -> None:
        *given, target = words
        from_stage = given[0].removeprefix("--from=") if given[0].startswith("--from=") else None
        place = image.inside(target)
        for name in given[1:] if from_stage else given:
            if from_stage:
                source = self._images[from_stage].inside(name)
                place.mkdir(parents=True, exist_ok=True)
                subprocess.run(["cp", "-al", f"{source}/.", place], check=True)
            else:
                self._copy_from_context(name, place, is_folder=target.endswith("/"))

    def _copy_from_context(self, name: str, place: Path, *, is_folder: bool) -> None:
        found = [each for each in context(self._sources) if each == name or each.startswith(f"{name}/")]
        assert found, f"COPY {name}: there is no such file in the build context"
        for each in found:
            target = place / Path(each).name if is_folder else place / Path(each).relative_to(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self._sources / each, target)


@dataclass
class Image:
    root: Path
    folder: str = "/"
    user: str = "0"
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": _PATH})
    words: dict[str, list[str]] = field(default_factory=dict)

    def inside(self, path: str) -> Path:
        return self.root / os.path.normpath(os.path.join(self.folder, path)).lstrip("/")

    def lay_out(self) -> None:
        for name in ("proc", "dev", "home", "tmp", "var/log", _HOME, sys.base_prefix):
            (self.root / name.lstrip("/")).mkdir(parents=True, exist_ok=True)
        (self.root / "tmp").chmod(0o1777)
        subprocess.run(["cp", "-a", "/etc", self.root], check=True)
        for name in _PROGRAMS:
            if Path("/", name).is_symlink():
                (self.root / name).symlink_to(os.readlink(Path("/", name)))
            elif Path("/", name).is_dir():
                (self.root / name).mkdir(exist_ok=True)

    def run(self, command: Sequence[str]) -> None:
        """A step of the build: with the network, and with the settings and caches of pip, uv and npm."""
        handed_on = {
            name: value
            for name, value in surroundings().items()
            if not name.startswith(_NOT_HANDED_ON) and "=" not in name
        }
        around = {**handed_on, "UV_SYSTEM_CERTS": "1", "HOME": _HOME, "TMPDIR": "/tmp", **self.environment}
        mounts = [*self._mounts(), *self._bind(Path.home(), _HOME)]
        self._chrooted(mounts, command, around)

    def start(self, command: Sequence[str]) -> str:
        """What a container of this image prints: with its own network, and without the settings of this machine."""
        up = shlex.join([sys.executable, "-c", _LOOPBACK_UP])
        return self._chrooted([up, *self._mounts()], command, self.environment, "--net")

    def _chrooted(
        self, mounts: Sequence[str], command: Sequence[str], environment: Mapping[str, str], *namespaces: str
    ) -> str:
        within = shlex.join(["sh", "-ec", 'cd "$0" && exec "$@"', self.folder, *command])
        chroot = shlex.join(["chroot", f"--userspec={self.user}:{self.user}", str(self.root)])
        cleared = shlex.join(["env", "-i", *(f"{name}={value}" for name, value in environment.items())])
        script = "\n".join([*mounts, f"exec {chroot} {cleared} {within}"])
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *namespaces, "sh", "-ec", script]
        done = subprocess.run(unshare, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _mounts(self) -> list[str]:
        found = [shlex.join(["mount", "-t", "proc", "proc", str(self.root / "proc")])]
        found += self._bind(Path("/dev"), "/dev")
        for name in _PROGRAMS:
            if not Path("/", name).is_symlink() and Path("/", name).is_dir():
                found += self._bind(Path("/", name), f"/{name}", "ro")
        if not sys.base_prefix.startswith("/usr"):
            found += self._bind(Path(sys.base_prefix), sys.base_prefix, "ro")
        for program in _ABSENT:
            for place in ("/usr/bin", "/usr/sbin"):
                if Path(place, program).exists():
                    found += self._bind(Path("/dev/null"), f"{place}/{program}")
        return found

    def _bind(self, source: Path, target: str, *options: str) -> list[str]:
        place = str(self.root / target.lstrip("/"))
        bound = [shlex.join(["mount", "--bind", str(source), place])]
        if options:
            bound.append(shlex.join(["mount", "-o", ",".join(["remount", "bind", *options]), place]))
        return bound
