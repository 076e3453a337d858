"""Reader of the operator's file; relative paths in it are relative to its folder."""

from collections.abc import Iterable
from os.path import isfile
from pathlib import Path
from typing import Any

from stellwerk.agents.build.models import provider_kinds
from stellwerk.agents.graphs.import_reference import absolute_reference
from stellwerk.agents.graphs.serve_targets import content_of, names_system
from stellwerk.errors import SettingsError
from stellwerk.redaction.redactor import Redactors
from stellwerk.settings import provider_keys
from stellwerk.spec.load import load_operator
from stellwerk.spec.operator import GraphProcess, McpServer, Operator

BESIDE = "operator.yaml"


def operator_beside(targets: Iterable[str]) -> Path | None:
    """The operator's file next to the agent systems on the command line, if there is one."""
    places = dict.fromkeys(Path(target).parent / BESIDE for target in targets if names_system(target))
    found = [place for place in places if isfile(place)]
    if len(found) > 1:
        files = ", ".join(map(str, found))
        raise SettingsError(f"there is more than one {BESIDE}: {files}; name one with --config")
    return found[0] if found else None


def read_operator(config: Path | None) -> Operator:
    """The content of the file, with absolute paths; the defaults without a file."""
    if config is None:
        return Operator()
    text = content_of(str(config), forms="name another file with --config")
    operator = load_operator(text, source=str(config), kinds=provider_kinds)
    folder = config.absolute().parent
    changes: dict[str, Any] = {
        "tools": [absolute_reference(folder, each) for each in operator.tools],
        "graphs": {name: absolute_reference(folder, each) for name, each in operator.graphs.items()},
        "state_types": {
            name: [absolute_reference(folder, each) for each in listed] for name, listed in operator.state_types.items()
        },
        "isolate": {name: _process(folder, name, each) for name, each in operator.isolate.items()},
        "mcp_servers": {name: _server(folder, each) for name, each in operator.mcp_servers.items()},
    }
    if operator.store.index is not None:
        embed = absolute_reference(folder, operator.store.index.embed)
        index = operator.store.index.model_copy(update={"embed": embed})
        changes["store"] = operator.store.model_copy(update={"index": index})
    if operator.tokens is not None:
        jwks = _absolute(folder, operator.tokens.jwks)
        changes["tokens"] = operator.tokens.model_copy(update={"jwks": jwks})
    return operator.model_copy(update=changes)


def redactors_of(operator: Operator) -> Redactors:
    """Redacts the operator's secrets: API keys of models, and secrets of MCP servers."""
    secrets = [key.get_secret_value() for key in provider_keys().values()]
    for server in operator.mcp_servers.values():
        secrets += server.literal_secrets()
    return Redactors(secrets)


def _server(folder: Path, server: McpServer) -> McpServer:
    if server.command is None:
        return server
    return server.model_copy(update={"cwd": _absolute(folder, server.cwd or ".")})


def _process(folder: Path, name: str, given: GraphProcess) -> GraphProcess:
    """With the path of the interpreter, which a virtual environment has in a known place."""
    if given.python is None:
        return given
    place = Path(_absolute(folder, given.python))
    found = place / "bin/python" if place.is_dir() else place
    if not isfile(found):
        problem = f"there is no interpreter {found}; name the folder of a virtual environment, or its python"
        raise SettingsError(f"isolate.{name}.python: {problem}")
    return given.model_copy(update={"python": str(found)})


def _absolute(folder: Path, written: str) -> str:
    return str(folder / Path(written).expanduser())
