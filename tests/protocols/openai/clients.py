"""OpenAI's own clients, with the key of a server that asks for one."""

from openai import AsyncOpenAI, OpenAI

from tests import keyed


def client_of(address: str) -> OpenAI:
    return OpenAI(base_url=f"{address}/v1", api_key=_key(address), max_retries=0, timeout=120)


def async_client_of(address: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{address}/v1", api_key=_key(address), max_retries=0, timeout=120)


def _key(address: str) -> str:
    return keyed.shown_to(address).get("Authorization", "none").removeprefix("Bearer ")
