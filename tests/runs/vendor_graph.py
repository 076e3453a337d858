"""A graph as an operator writes it, with tools and a vendor's model; the test copies it next to the model's address."""

import asyncio
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

HERE = Path(__file__).parent


@tool
async def post(letter: str) -> str:
    """Post a letter."""
    with (HERE / "ledger").open("a") as ledger:
        ledger.write(f"{letter}\n")
    if letter == "slow":
        await asyncio.Event().wait()
    return f"posted {letter}"


def graph() -> Any:
    address, key = (HERE / "address").read_text().split()
    model = ChatOpenAI(model="small", base_url=address, api_key=SecretStr(key), max_retries=0)
    return create_agent(model, [post])
