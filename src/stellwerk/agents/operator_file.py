"""The operator's file, read where it lies: relative paths in it count from its own folder."""

from collections.abc import Iterable
from os.path import isfile
from pathlib import Path
from typing import Any

from stellwerk.agents.models import provider_kinds
from stellwerk.agents.targets import names_system
from stellwerk.envelope.redaction import Redactors
from stellwerk.errors import SettingsError
from stellwerk.settings import provider_keys
from stellwerk.spec.load import SIZE_LIMIT, load_operator
from stellwerk.spec.operator import McpServer, Operator

BESIDE = "operator.yaml"


def operator_beside(targets: Iterable[str]) -> Path | None:
    """The operator's file in the folder of the agent systems that somebody names on the command line, if there is one.

    Raises:
        SettingsError: they lie in several folders, of which more than one has such a file.
    """
    places = dict.fromkeys(Path(target).parent / BESIDE for target in targets if names_system(target))
    found = [place for place in places if isfile(place)]
    if len(found) > 1:
        raise SettingsError(f"there is more than one {BESIDE}: {', '.join(map(str, found))}; name one with --config")
    return found[0] if found else None


def read_operator(config: Path | None) -> Operator:
    """What the file says, with its paths made absolute; nothing, if there is none.

    Raises:
        SettingsError: it cannot be read.
        SpecError: it is malformed; says everything that is wrong with it.
    """
    if config is None:
        return Operator()
    try:
        with config.open("rb") as file:
            text = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise SettingsError(f"cannot read {config}: {error.strerror}; name another file with --config") from error
    operator = load_operator(text, source=str(config), kinds=provider_kinds())
    folder = config.absolute().parent
    changes: dict[str, Any] = {
        "tools": [_reference(folder, reference) for reference in operator.tools],
        "graphs": {name: _reference(folder, reference) for name, reference in operator.graphs.items()},
        "mcp_servers": {name: _server(folder, server) for name, server in operator.mcp_servers.items()},
    }
    if operator.tokens is not None:
        jwks = _absolute(folder, operator.tokens.jwks)
        changes["tokens"] = operator.tokens.model_copy(update={"jwks": jwks})
    return operator.model_copy(update=changes)


def redactors_of(operator: Operator) -> Redactors:
    """What the operator knows and nobody else may read: keys of models, and what MCP servers are given."""
    told = [value for server in operator.mcp_servers.values() for value in server.told()]
    return Redactors([*told, *(key.get_secret_value() for key in provider_keys().values())])


def _reference(folder: Path, reference: str) -> str:
    place, _, name = reference.rpartition(":")
    return f"{_absolute(folder, place)}:{name}" if place.endswith(".py") else reference


def _server(folder: Path, server: McpServer) -> McpServer:
    return server if server.command is None else server.model_copy(update={"cwd": _absolute(folder, server.cwd or ".")})


def _absolute(folder: Path, written: str) -> str:
    return str(folder / Path(written).expanduser())
