"""The settings: one frozen object, read once, passed in. The only reader of the environment."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def in_home(path: Path) -> Path:
    """Expand ``~``, which a shell leaves in quotes and behind ``=``."""
    return Path(os.path.expanduser(path))


HomePath = Annotated[Path, AfterValidator(in_home)]


class Settings(BaseSettings):
    """Each field is also an environment variable, STELLWERK_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="STELLWERK_", frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    """Address to listen on. Without API keys and issuer, anything but loopback is refused."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port to listen on; 0 takes a free one."""
    data: HomePath = Path("./data")
    """Folder below which everything lies that the server keeps."""
    documents: str | None = None
    """Where documents are kept, if not in the data folder: s3://bucket/prefix, or a folder that machines share."""
    database: SecretStr | None = None
    """URL of a PostgreSQL database, postgresql://…; without it, the database is a SQLite file in the data folder."""
    role: Literal["all", "api", "worker"] = "all"
    """What this node of several does: take requests, drive runs, or both. Needs a PostgreSQL database."""
    workers: int = Field(default=1, ge=1, le=64)
    """Server processes on this host that share the port. More than one need a PostgreSQL database."""
    lease: float = Field(default=5.0, ge=1, le=60)
    """Seconds after its last heartbeat until a node of several counts as gone, and others take over its runs."""
    notifications: bool = True
    """Whether nodes notify each other by LISTEN and NOTIFY, which some poolers lack; else they look once a second."""
    config: HomePath | None = None
    """The operator's file: MCP servers, model providers, tools and graphs."""
    demo: bool | None = None
    """Whether demo and office are offered; by default by ``serve``, and not by an embedded app."""
    ignore_auth: bool = False
    """Whether graphs of a langgraph.json with the key ``auth`` are served without it."""
    isolate: bool = False
    """Whether graphs run in processes of their own."""
    langgraph_root: bool = False
    """Whether LangGraph's API is at the root as well, for clients that take the address of a server only."""
    slots: int = Field(default=200, ge=1)
    """Runs that are driven at the same time; more wait in order."""
    waiting: int = Field(default=1000, ge=0)
    """Runs that may wait for a slot, and messages that may wait in one session, before 429."""
    window: float = Field(default=0.04, ge=0, le=0.25)
    """Seconds in which tokens of one model call are merged before storage; 0 stores each."""
    body_limit: int = Field(default=1024 * 1024, ge=1024)
    """Bytes that one request body may have."""
    file_limit: int = Field(default=25 * 1024 * 1024, ge=1024)
    """Bytes that one uploaded file may have, and the form around it."""
    hosts: str = ""
    """Names of the server besides those of loopback, separated by commas; * is any.
    Refused as long as there are neither API keys nor an issuer; so are origins beyond loopback."""
    origins: str = ""
    """Origins whose pages may use the server besides its own, separated by commas."""
    logs: Literal["auto", "json", "text"] = "auto"
    """The form of the log: JSON, or readable lines; auto is JSON unless on a terminal."""
    master_key_command: str | None = None
    """Prints the keys that secrets are sealed with; without it they lie in the data folder."""
    url: str = "http://127.0.0.1:8000"
    """Where the commands that talk to a server find it."""
    key: SecretStr | None = None
    """What those commands send as a bearer token, to a server that asks for one."""


def listed(text: str) -> tuple[str, ...]:
    """What a setting names, separated by commas."""
    return tuple(part for part in (one.strip().lower() for one in text.split(",")) if part)


def beyond_loopback(settings: Settings) -> str | None:
    """The setting by which others than this machine may use the server; None if there is none."""
    if any(host.strip("[]") not in LOOPBACK for host in listed(settings.hosts)):
        return "STELLWERK_HOSTS"
    if not all(map(_is_loopback_origin, listed(settings.origins))):
        return "STELLWERK_ORIGINS"
    return None


def _is_loopback_origin(origin: str) -> bool:
    try:
        return urlsplit(origin).hostname in LOOPBACK
    except ValueError:
        return False


def object_store_endpoint() -> str | None:
    """The address of the object store, if it is not Amazon's; its client reads the same variables."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return next((value for name in names if (value := os.environ.get(name))), None)


def provider_keys() -> Mapping[str, SecretStr]:
    """The operator's own keys for models, by secret: OPENAI_API_KEY is openai_api_key."""
    found = {name: value for name, value in os.environ.items() if name.endswith("_API_KEY") and value}
    return {name.lower(): SecretStr(value) for name, value in found.items()}


def adopt_environment(values: Mapping[str, str]) -> None:
    """Set the variables of an operator's project; what the server was started with stays."""
    for name, value in values.items():
        os.environ.setdefault(name, value)


def graph_environment() -> dict[str, str]:
    """The variables for graphs in processes of their own: all but those of the server itself."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STELLWERK_")}
