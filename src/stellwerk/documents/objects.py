"""Documents in an object store that speaks S3, through obstore: the only module that imports it.

Credentials, region and endpoint are obstore's own to find: the environment, or the role of the
machine. No answer of the store is shown or logged as it is, because it may repeat parts of them.
"""

import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile, SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, BinaryIO

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import S3Store

from stellwerk.documents.port import Measured, Place, document_of, extract_name, measured, names_of, place_of
from stellwerk.errors import SettingsError, StorageGone
from stellwerk.threads import in_thread

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_PART = 8 * 1024 * 1024
"""Bytes of a request, up and down."""
_PIECE = 1024 * 1024
_SMALL = 256 * 1024
"""Up to this, the bytes are sent without asking first whether they are there."""
_CLIENT: "ClientConfig" = {
    "connect_timeout": timedelta(seconds=3),
    "timeout": timedelta(seconds=30),
    "allow_http": True,
}
_RETRY: "RetryConfig" = {"max_retries": 1, "retry_timeout": timedelta(seconds=10)}
_NOT_FOUND = (FileNotFoundError, NotFoundError)
_RIGHTS = "s3:GetObject, s3:PutObject and s3:DeleteObject on its objects, and s3:ListBucket on the bucket"
_REMEDIES = {
    "NoSuchBucket": "there is no such bucket; create it, or name another with --documents",
    "InvalidAccessKeyId": "the store does not know the access key; look at AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "the secret does not belong to the access key; look at AWS_SECRET_ACCESS_KEY",
    "AccessDenied": f"access is denied; these credentials need {_RIGHTS}",
    "ExpiredToken": "the credentials have expired",
    "AuthorizationHeaderMalformed": "the bucket is in another region; look at AWS_REGION",
    "PermanentRedirect": "the bucket is in another region; look at AWS_REGION and AWS_ENDPOINT_URL",
    "301": "the bucket is in another region; look at AWS_REGION and AWS_ENDPOINT_URL",
    "401": f"access is denied; these credentials need {_RIGHTS}",
    "403": f"access is denied; these credentials need {_RIGHTS}",
    "404": "there is no such bucket; create it, or name another with --documents",
}
"""By the code or the status of an answer."""
_NO_CREDENTIALS = (
    "there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this machine a role"
)


class _Upload:
    """Bytes that lie in a file of the caller until they are stored."""

    def __init__(self, files: "ObjectFiles", tenant: str, source: BinaryIO, found: Measured) -> None:
        self._files, self._source, self.measured = files, source, found
        self._place = place_of(tenant, found.document_id)

    async def place(self) -> None:
        await self._files.upload(self._place, self._source, self.measured.size)

    async def discard(self) -> None:
        pass


class ObjectFiles:
    is_shared = True

    def __init__(self, bucket: str, prefix: str) -> None:
        self._name = f"s3://{bucket}/{prefix}".rstrip("/")
        try:
            self._store = S3Store(bucket, prefix=prefix or None, client_options=_CLIENT, retry_config=_RETRY)
        except BaseError as error:
            raise SettingsError(f"documents cannot be kept in {self}: {_reason(str(error))}") from None

    def __str__(self) -> str:
        return self._name

    async def open(self) -> None:
        name = f".stellwerk-{os.urandom(8).hex()}"
        try:
            with self._answers():
                await obstore.put_async(self._store, name, b"Stellwerk may write here.", mode="create")
                await obstore.get_range_async(self._store, name, start=0, length=1)
                await self._first_page()
                await obstore.delete_async(self._store, name)
        except FileNotFoundError as error:
            raise SettingsError(f"documents cannot be kept in {self}: {_REMEDIES['404']}") from error
        except StorageGone as error:
            raise SettingsError(error.message.replace("cannot be reached", "cannot be kept", 1)) from None

    async def is_empty(self) -> bool:
        with self._answers():
            return not await self._first_page()

    async def _first_page(self) -> list[Place]:
        async for page in obstore.list(self._store):
            if found := [place for each in page if (place := _place_in(each["path"])) is not None]:
                return found
        return []

    async def prepare(self, tenant: str, source: BinaryIO) -> _Upload:
        return _Upload(self, tenant, source, await in_thread(measured, source))

    async def write(self, place: Place, data: bytes) -> None:
        await self.upload(place, BytesIO(data), len(data))

    async def upload(self, place: Place, source: BinaryIO, size: int) -> None:
        """Create the object, in parts if it is large; one with this name has the same bytes."""
        name = "/".join(place)
        with self._answers():
            if size > _SMALL and await self._has(name, size):
                return
            await in_thread(source.seek, 0)
            if size > _PART:
                parts = _parts(source)
                await obstore.put_async(self._store, name, parts, chunk_size=_PART, max_concurrency=2)
                return
            try:
                await obstore.put_async(self._store, name, await in_thread(source.read), mode="create")
            except AlreadyExistsError:
                return

    async def _has(self, name: str, size: int) -> bool:
        try:
            return (await obstore.head_async(self._store, name))["size"] == size
        except _NOT_FOUND:
            return False

    async def pieces(self, place: Place, size: int) -> AsyncGenerator[bytes, None]:
        # One request for each: a slow reader holds no connection to the store.
        for start in range(0, size, _PIECE):
            end = min(start + _PIECE, size)
            with self._answers():
                piece = await obstore.get_range_async(self._store, "/".join(place), start=start, end=end)
            yield bytes(piece)

    @asynccontextmanager
    async def as_file(self, place: Place, size: int) -> AsyncIterator[Path]:
        with NamedTemporaryFile(prefix="stellwerk-") as copy:
            async for piece in self.pieces(place, size):
                await in_thread(copy.write, piece)
            copy.flush()
            yield Path(copy.name)

    async def write_extract(self, place: Place, ext: str, data: bytes) -> None:
        with self._answers():
            await obstore.put_async(self._store, _extract(place, ext), data, chunk_size=_PART, max_concurrency=2)

    async def open_extract(self, place: Place, ext: str, first: int | None = None) -> IO[bytes]:
        name = _extract(place, ext)
        with self._answers():
            if first is not None:
                return BytesIO(bytes(await obstore.get_range_async(self._store, name, start=0, end=first)))
            size = (await obstore.head_async(self._store, name))["size"]
            with ExitStack() as undo:
                copy = undo.enter_context(SpooledTemporaryFile(max_size=_PIECE))
                for start in range(0, size, _PART):
                    end = min(start + _PART, size)
                    piece = await obstore.get_range_async(self._store, name, start=start, end=end)
                    await in_thread(copy.write, bytes(piece))
                copy.seek(0)
                undo.pop_all()
            return copy

    async def remove(self, places: Sequence[Place]) -> None:
        names = [f"{folder}/{name}" for folder, document_id in places for name in names_of(document_id)]
        with self._answers():
            await obstore.delete_async(self._store, names)

    async def stored(self, before: float) -> AsyncIterator[Sequence[Place]]:
        with self._answers():
            async for page in obstore.list(self._store):
                old = [each["path"] for each in page if each["last_modified"].timestamp() < before]
                if found := [place for path in old if (place := _place_in(path)) is not None]:
                    yield found

    async def remove_parts(self, before: float) -> int:
        """An object is there once it is complete; the store's own rules end uploads in parts."""
        return 0

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """Raises FileNotFoundError for a missing object, and StorageGone for everything else."""
        try:
            yield
        except _NOT_FOUND as error:
            if "NoSuchBucket" in str(error):
                raise StorageGone(f"documents cannot be reached in {self}: {_REMEDIES['NoSuchBucket']}") from None
            raise FileNotFoundError(f"there is no such object in {self}") from None
        except BaseError as error:
            raise StorageGone(f"documents cannot be reached in {self}: {_reason(str(error))}") from None


def _reason(text: str) -> str:
    """What the store answered, without its words: they may repeat what was signed."""
    if "/latest/api/token" in text or "169.254.170.2" in text:
        return _NO_CREDENTIALS
    if "CA certificates" in text:
        return "this machine has no certificates of authorities; install them, or name them in SSL_CERT_FILE"
    code = re.search(r"<Code>(\w{1,60})</Code>", text)
    status = re.search(r"status code: (\d{3})", text)
    for found in (code, status):
        if found is not None and found[1] in _REMEDIES:
            return _REMEDIES[found[1]]
    if code is not None or status is not None:
        answered = " ".join(found[1] for found in (status, code) if found is not None)
        return f"the store answered {answered}; try again"
    return "the store does not answer; look at AWS_ENDPOINT_URL and the network"


def _extract(place: Place, ext: str) -> str:
    return f"{place[0]}/{extract_name(place[1], ext)}"


def _place_in(path: str) -> Place | None:
    """The place of an object; None for those that are not ours."""
    folder, _, name = path.rpartition("/")
    document_id = document_of(name)
    return (folder, document_id) if document_id is not None and re.fullmatch("[0-9a-f]{32}", folder) else None


async def _parts(source: BinaryIO) -> AsyncIterator[bytes]:
    while part := await in_thread(source.read, _PART):
        yield part
