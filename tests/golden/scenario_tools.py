"""The tools of the scenarios. None waits for a thread or for time, so that everything happens in one order always."""

import asyncio
from base64 import b64encode
from typing import Any

from langgraph.config import get_stream_writer
from langgraph.prebuilt import ToolRuntime

from stellwerk.agents.tools.builtin import ask_user
from stellwerk.agents.tools.registry import tool
from stellwerk.envelope.results import Column, Table


@tool(idempotent=True)
async def weather(city: str) -> Table:
    """Tell the weather in a city."""
    return Table(columns=(Column(name="city"), Column(name="degrees", type="number")), rows=((city, 21),))


@tool(effects="write")
async def note(text: str) -> str:
    """Write something down."""
    await asyncio.sleep(0)
    return f"noted {text}"


@tool
async def fetch(url: str) -> str:
    """Fetch a page; nobody answers."""
    raise ConnectionError(f"nobody answers at {url}")


@tool
async def climb(runtime: ToolRuntime[Any, Any]) -> str:
    """Climb, and tell how far."""
    tell = get_stream_writer()
    tell({"progress": 50, "text": "half way", "tool_call_id": runtime.tool_call_id})
    runtime.emit_output_delta("step 1, ")
    runtime.emit_output_delta("step 2")
    await asyncio.sleep(0)
    return "at the top"


@tool(effects="write")
async def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


@tool(output="file_ref")
async def report(title: str) -> dict[str, str]:
    """Write a report as a file."""
    body = b64encode(f"# {title}\n".encode()).decode()
    return {"kind": "file_ref", "filename": "report.md", "mime": "text/markdown", "bytes_b64": body}


TOOLS = [weather, note, fetch, climb, pay, report, ask_user]
