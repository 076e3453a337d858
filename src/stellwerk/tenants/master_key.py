"""Master keys encrypt secrets at rest. They are in a file beside the data, or a command prints them.

The first encrypts, all of them decrypt. A key is named by the beginning of its digest, so
that an encrypted value names its key.
"""

import fcntl
import hashlib
import hmac
import os
import secrets
import shlex
import stat
import subprocess
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from stellwerk.database.folder import MASTER_KEY
from stellwerk.errors import SettingsError

_BYTES = 32
_NONCE = 12
_FORM = "32 bytes in base64 on each line, the one to seal with first"


class Unopened(ValueError):
    """The value was sealed for another secret, with a key that is not here, or was changed."""


@dataclass(frozen=True, slots=True)
class MasterKeys:
    """What was read; a repr shows none of it."""

    keys: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"MasterKeys({', '.join(self.names)})"

    @property
    def current(self) -> str:
        """The name of the one that seals."""
        return name_of(self.keys[0])

    @property
    def names(self) -> list[str]:
        return [*map(name_of, self.keys)]

    def seal(self, value: str, about: bytes) -> tuple[str, bytes]:
        """The key's name, and what only it opens, and only for what it is ``about``."""
        nonce = secrets.token_bytes(_NONCE)
        return self.current, nonce + AESGCM(self.keys[0]).encrypt(nonce, value.encode(), about)

    def open(self, key: str, sealed: bytes, about: bytes) -> str:
        known = next((each for each in self.keys if name_of(each) == key), None)
        if known is None:
            raise Unopened(f"it is sealed with the key {key}, which is not here")
        try:
            return AESGCM(known).decrypt(sealed[:_NONCE], sealed[_NONCE:], about).decode()
        except (InvalidTag, ValueError) as error:
            raise Unopened("it was changed, or belongs elsewhere") from error

    def derived(self, purpose: str) -> list[bytes]:
        """A key for another purpose, from each of them, the first one to seal with."""
        return [hmac.digest(key, f"stellwerk {purpose}".encode(), "sha256") for key in self.keys]


def name_of(key: bytes) -> str:
    return hashlib.sha256(b"stellwerk master key" + key).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class KeyFile:
    path: Path

    def read(self, *, may_make: bool) -> MasterKeys:
        """The keys as they are now; with ``may_make``, as nothing is sealed yet, the first one is made."""
        try:
            mode = self.path.stat().st_mode
            text = self.path.read_text("ascii")
        except FileNotFoundError as error:
            if may_make:
                return self._first()
            said = f"the secrets in the database were sealed with {self.path}, which is gone; put it back"
            raise SettingsError(said) from error
        except (OSError, ValueError) as error:
            said = f"cannot read the master key {self.path}; it must be yours, and text"
            raise SettingsError(said) from error
        if stat.S_IMODE(mode) & 0o077:
            said = f"others may read the master key {self.path}"
            raise SettingsError(f"{said}; take that away: chmod 600 {self.path}")
        return _parsed(text, str(self.path))

    def _first(self) -> MasterKeys:
        """Made once, also if nodes that share the folder start at the same moment."""
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if self.path.exists():
                return self.read(may_make=False)
            return self._write(MasterKeys((secrets.token_bytes(_BYTES),)))
        finally:
            os.close(folder)

    def places(self) -> tuple[Path, Path]:
        """Where keys lie: the file, and what it is replaced by."""
        return self.path, self.path.with_suffix(".new")

    def begin(self) -> MasterKeys:
        """The keys to rotate to: a new one that seals from now on, and the present ones."""
        present = self.read(may_make=False).keys
        return self._write(MasterKeys((secrets.token_bytes(_BYTES), *present)))

    def finish(self, keys: MasterKeys) -> None:
        """Everything is sealed with the first one now."""
        self._write(MasterKeys(keys.keys[:1]))

    def _write(self, keys: MasterKeys) -> MasterKeys:
        """All of it or nothing, whatever crashes: a lost key cannot be made again."""
        _, new = self.places()
        try:
            new.unlink(missing_ok=True)
            opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(opened, "w", encoding="ascii") as file:
                file.writelines(f"{b64encode(key).decode()}\n" for key in keys.keys)
                file.flush()
                os.fsync(file.fileno())
            new.rename(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise SettingsError(f"cannot write the master key {self.path}: {error.strerror}") from error
        return keys


@dataclass(frozen=True, slots=True)
class KeyCommand:
    """A command of the operator that prints the keys. It is not given to a shell."""

    command: str

    def read(self, *, may_make: bool) -> MasterKeys:
        try:
            words = shlex.split(self.command)
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=True)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = type(error).__name__  # neither its words nor its output: they may hold a key
            said = f"the command that tells the master key failed ({reason}); try it by hand"
            raise SettingsError(f"{said}, and correct STELLWERK_MASTER_KEY_COMMAND") from None
        text = done.stdout.decode("ascii", errors="replace")
        return _parsed(text, "what STELLWERK_MASTER_KEY_COMMAND prints")

    def begin(self) -> MasterKeys:
        return self.read(may_make=False)

    def finish(self, keys: MasterKeys) -> None:
        """The operator removes the old ones."""


KeySource = KeyFile | KeyCommand


def key_source(data: Path, command: str | None) -> KeySource:
    return KeyFile(data / MASTER_KEY) if command is None else KeyCommand(command)


def _parsed(text: str, where: str) -> MasterKeys:
    try:
        keys = tuple(b64decode(line, validate=True) for line in text.split())
    except ValueError:
        keys = ()
    if not keys or any(len(key) != _BYTES for key in keys):
        raise SettingsError(f"{where} is no master key: it must be {_FORM}")
    return MasterKeys(keys)
