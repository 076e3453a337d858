"""Plug-ins: an installed package adds routes, commands and kinds of agents by its entry points."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = """
from contextlib import asynccontextmanager
from typing import Any

import typer
from fastapi import APIRouter
from stellwerk.api.services import PluginRouters, ServerPlugin

commands = typer.Typer()


@commands.command()
def hello() -> None:
    typer.echo("hello")


@asynccontextmanager
async def opened(app: Any, services: Any) -> Any:
    router = APIRouter()
    router.get("/greeting")(lambda: {"tenants": len(services.credentials.tenants.all())})
    yield PluginRouters(others=[router])


server = ServerPlugin(opened, tags=[{"name": "greetings"}])
"""
ENTRY_POINTS = """
[stellwerk.server]
greeting = greeting:server
[stellwerk.commands]
greeting = greeting:commands
"""
CLIENT = """
import asyncio
import sys
import httpx2
from stellwerk import create_app, opened
from stellwerk.settings import Settings

async def main() -> None:
    app = create_app(Settings(data=sys.argv[1]))
    transport = httpx2.ASGITransport(app)
    async with opened(app), httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        print((await client.get("/greeting")).json())
        print([tag["name"] for tag in (await client.get("/openapi.json")).json()["tags"]])
        print((await client.get("/api/workflows")).json())

asyncio.run(main())
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    about = folder / "greeting-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "greeting.py").write_text(PACKAGE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, *arguments]
    return subprocess.run(command, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, timeout=60)


def test_a_package_adds_routes_and_tags_beside_those_of_workflows(installed: Path, tmp_path: Path) -> None:
    done = run(installed, "-c", CLIENT, str(tmp_path / "data"))
    assert not done.returncode, done.stderr
    greeting, tags, workflows = done.stdout.splitlines()
    assert greeting == "{'tenants': 1}"
    assert "greetings" in tags
    assert workflows == "[]"


def test_a_package_adds_a_group_of_commands(installed: Path) -> None:
    done = run(installed, "-m", "stellwerk", "greeting", "hello")
    assert done.stdout == "hello\n", done.stderr


def test_an_entry_point_that_names_nothing_is_reported_by_its_name(installed: Path) -> None:
    (installed / "greeting-1.0.dist-info/entry_points.txt").write_text("[stellwerk.server]\ngreeting = greeting:gone\n")
    done = run(installed, "-c", "from stellwerk import create_app\ncreate_app()")
    assert "the entry point 'greeting' of stellwerk.server" in done.stderr
