"""A well-behaved MCP server of today's revision, on its pipes or, with ``http``, on a port that it prints."""

import asyncio
import os
import socket
import sys
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")

app = MCPServer("lab", log_level="WARNING")
seen: list[str] = []


class City(BaseModel):
    name: str
    people: int


class Size(BaseModel):
    size: str


class Payment(BaseModel):
    card: int
    gift: bool


@app.tool(annotations=ToolAnnotations(read_only_hint=True))
def cities() -> list[City]:
    """List cities."""
    return [City(name="Ulm", people=129000), City(name="Bonn", people=336000)]


@app.tool()
def say(text: str) -> str:
    """Say a text."""
    return text


@app.tool(annotations=ToolAnnotations(destructive_hint=False, idempotent_hint=True))
def save() -> str:
    """Fail to save."""
    raise ToolError("disk full")


@app.tool(structured_output=False)
def picture() -> list[str | Image]:
    """Draw a picture."""
    return ["Here it is.", Image(data=PNG, format="png")]


@app.tool(structured_output=False)
def icon() -> Image:
    """Draw an icon."""
    return Image(data=PNG, format="png")


@app.tool()
async def climb(context: Context) -> str:
    """Climb a stair and tell every step."""
    for step in (1, 2):
        await context.report_progress(step, 2, f"step {step}")
    return "up"


@app.tool()
def visit(guest: str) -> list[str]:
    """Remember a guest; tell the process and all guests so far."""
    seen.append(guest)
    return [str(os.getpid()), *seen]


@app.tool(name="get.thing/v1")
def thing() -> str:
    """Have an odd name."""
    return "thing"


@app.tool()
def echo(config: str, runtime: str, run_manager: str, self: str) -> list[str]:
    """Have arguments whose names mean something to LangChain."""
    return [config, runtime, run_manager, self]


@app.tool()
def big(size: int) -> str:
    """Say very much."""
    return "x" * size


@app.tool()
async def ponder() -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return "42"


@app.tool()
def die() -> str:
    """End the server in the middle of the call."""
    os._exit(3)


def ask_size(dish: str) -> Elicit[Size]:
    seen.append("asked")
    return Elicit(f"Which size for {dish}?", Size)


def ask_payment() -> Elicit[Payment]:
    return Elicit("How do you pay?", Payment)


@app.tool()
def order(dish: str, size: Annotated[Size, Resolve(ask_size)]) -> str:
    """Order a dish."""
    seen.append(f"ordered {dish}")
    return f"{size.size} {dish}"


@app.tool()
def buy(dish: str, size: Annotated[Size, Resolve(ask_size)], pay: Annotated[Payment, Resolve(ask_payment)]) -> str:
    """Buy a dish."""
    return f"{size.size} {dish}, card {pay.card}, gift {pay.gift}"


async def serve_http() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
        listener.listen()
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(app.streamable_http_app(), log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    if "http" in sys.argv:
        asyncio.run(serve_http())
    else:
        app.run()
