"""Which place the setting ``documents`` names."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from stellwerk.documents.files import FolderFiles
from stellwerk.documents.port import Files
from stellwerk.errors import SettingsError
from stellwerk.settings import in_home, object_store_endpoint

_S3 = re.compile(r"s3://([A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9])((?:/[A-Za-z0-9!_.*'()=+@-]+)*)/?")


def files_at(place: str | None, default: Path, *, is_shared: bool = False) -> Files:
    """``is_shared`` is whether the default folder is, too.

    Raises:
        SettingsError: it is the address of something else, or needs a package that is not installed.
    """
    if place is None:
        return FolderFiles(default, is_shared=is_shared)
    if "://" not in place:
        return FolderFiles(in_home(Path(place)), is_shared=True)
    found = _S3.fullmatch(place)
    if found is None or {".", ".."} & set(place.split("/")):
        raise SettingsError(
            "--documents takes a folder, or an address such as s3://bucket/prefix, "
            "of letters, digits and few marks; without user, password and parameters"
        )
    _check_endpoint(object_store_endpoint())
    try:
        from stellwerk.documents.objects import ObjectFiles
    except ImportError as error:
        raise SettingsError(
            "documents in an object store need a package that is not installed: "
            "pip install 'path/to/stellwerk[s3]'; or name a folder with --documents"
        ) from error
    return ObjectFiles(found[1], found[2].strip("/"))


def _check_endpoint(endpoint: str | None) -> None:
    """The client of the store would end the process for some of what is no address."""
    if endpoint is None:
        return
    try:
        found = urlsplit(endpoint)
        is_address = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:
        is_address = False
        found = None
    if not is_address or found is None or found.username is not None or found.query:
        raise SettingsError("AWS_ENDPOINT_URL is no address such as https://s3.example.com, without user and password")
