"""What users can see of the package without running an agent, as text: OpenAPI, command help, checks, public names."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

import stellwerk
from stellwerk import testing
from stellwerk.app import create_app
from stellwerk.cli import app as command_line
from stellwerk.settings import Settings

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
WIDTH = 100


def surfaces() -> dict[str, str]:
    """Return the content of each golden file by its name."""
    return {
        "openapi.txt": openapi(),
        "help.txt": "\n".join(help_texts()),
        "check.txt": "\n".join(checks()),
        "names.txt": "".join(f"{name}\n" for name in public_names()),
        "settings.txt": "".join(f"STELLWERK_{name.upper()}\n" for name in Settings.model_fields),
    }


def public_names() -> list[str]:
    return [*stellwerk.__all__, *(f"testing.{name}" for name in testing.__all__)]


def openapi() -> str:
    """Give each operation and each schema a line of its own, so that a diff names what changed."""
    with TemporaryDirectory() as folder:
        document = asyncio.run(_openapi(Path(folder)))
    paths, components = document.pop("paths"), document.pop("components")
    found = [(name, value) for name, value in document.items()]
    found += [
        (f"{method.upper()} {path}", value) for path, methods in paths.items() for method, value in methods.items()
    ]
    found += [(f"{kind} {name}", value) for kind, named in components.items() for name, value in named.items()]
    return "".join(f"{name} {json.dumps(value, ensure_ascii=False)}\n" for name, value in found)


async def _openapi(data: Path) -> dict[str, Any]:
    app = create_app(Settings(data=data))
    async with stellwerk.opened(app):
        return app.openapi()


def help_texts() -> Iterator[str]:
    for words in commands(get_command(command_line)):
        yield f"$ stellwerk {' '.join([*words, '--help'])}"
        yield invoke(*words, "--help")


def commands(command: Any, *words: str) -> Iterator[tuple[str, ...]]:
    """Walk through every command and sub-command."""
    yield words
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from commands(command.get_command(None, name), *words, name)


def checks() -> Iterator[str]:
    """Run ``stellwerk check`` on every agent system that the project ships."""
    systems = [
        path
        for folder in ("examples", "src")
        for path in sorted((ROOT / folder).rglob("*.yaml"))
        if path.read_text("utf-8").startswith(("version:", "#")) and "\nagents:" in path.read_text("utf-8")
    ]
    for path in systems:
        yield f"$ stellwerk check {path.relative_to(ROOT)}"
        yield invoke("check", str(path)).replace(f"{ROOT}/", "")


def invoke(*arguments: str) -> str:
    # A key in the environment would change what `check` warns of.
    runner = CliRunner(env={"OPENAI_API_KEY": None, "FORCE_COLOR": None})
    done = runner.invoke(command_line, list(arguments), terminal_width=WIDTH, prog_name="stellwerk")
    return done.output + f"(exit code {done.exit_code})\n"


def write_all() -> None:
    for name, text in surfaces().items():
        (HERE / name).write_text(text, "utf-8")
