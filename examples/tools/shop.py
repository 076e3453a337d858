"""Tools of a small shop: one for each way a tool can run, and for each kind of result.

Add ``examples/tools/shop.py:tools`` under ``tools`` in the operator's file, then list them:

    stellwerk tools --config operator.yaml
"""

import asyncio
import subprocess
import sys
from base64 import b64encode
from typing import Annotated

from pydantic import BaseModel

from stellwerk.agents.tools.spec import tool

_STOCK = {"lamp": 12, "chair": 0, "table": 3}


@tool(aliases=["stock", "inventory"], idempotent=True)
def list_stock(only_available: Annotated[bool, "Leave out what is sold out."] = False) -> list[dict[str, object]]:
    """List what the shop has."""
    return [{"article": name, "pieces": n} for name, n in _STOCK.items() if n or not only_available]


class Quote(BaseModel):
    article: str
    pieces: int
    cents: int


@tool(idempotent=True, timeout=5)
async def get_quote(article: str, pieces: int = 1) -> Quote:
    """Say what some pieces of an article cost.

    Args:
        article: The name, as list_stock gives it.
        pieces: How many are wanted.
    """
    await asyncio.sleep(0)  # a real tool would ask a supplier here
    return Quote(article=article, pieces=pieces, cents=1999 * pieces)


@tool(runs_in="process", timeout=20)
def count_primes(below: Annotated[int, "Where to stop."]) -> int:
    """Count the prime numbers below a number: heavy work, which can be stopped because it has its own process."""
    script = f"print(sum(all(n % d for d in range(2, int(n ** 0.5) + 1)) for n in range(2, {below})))"
    return int(subprocess.check_output([sys.executable, "-c", script]))


@tool(effects="external", output="file_ref")
def print_invoice(article: str, pieces: int) -> dict[str, object]:
    """Write an invoice as a file."""
    text = b64encode(f"Invoice\n{pieces} x {article}\n".encode()).decode()
    return {"kind": "file_ref", "filename": "invoice.txt", "mime": "text/plain", "bytes_b64": text}


tools = [list_stock, get_quote, count_primes, print_invoice]
