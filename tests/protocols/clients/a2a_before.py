"""A2A's client for Python of protocol 0.3, with the task that it makes of the updates."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import A2ACardResolver, A2AClientError, ClientConfig, ClientFactory
from a2a.types import Message, Part, Task, TaskIdParams, TaskQueryParams, TextPart, TransportProtocol

TRANSPORTS = {"JSONRPC": TransportProtocol.jsonrpc, "HTTP+JSON": TransportProtocol.http_json}


@asynccontextmanager
async def peer(url: str, key: str, binding: str, system: str = "demo") -> AsyncIterator[Any]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = await A2ACardResolver(http, f"{url}/a2a/{system}").get_agent_card()
        config = ClientConfig(httpx_client=http, supported_transports=[TRANSPORTS[binding]], use_client_preference=True)
        yield ClientFactory(config).create(card)


def shown(task: Task) -> dict[str, Any]:
    texts = [
        "".join(part.root.text for part in artifact.parts if isinstance(part.root, TextPart))
        for artifact in task.artifacts or []
    ]
    asked = task.status.message.parts if task.status.message else []
    return {
        "task": task.id,
        "context": task.context_id,
        "state": task.status.state.value,
        "text": "\n\n".join(filter(None, texts)),
        "said": asked[0].root.text if asked and isinstance(asked[0].root, TextPart) else None,
    }


async def followed(events: AsyncIterator[Any], emit: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"state": None, "error": None}
    try:
        async for task, _ in events:
            if said["state"] is None:
                emit("task", task.id)
            said |= shown(task)
            emit("text", said["text"])
    except (A2AClientError, httpx.HTTPError) as error:
        said["error"] = f"{type(error).__name__}: {error}"
    return said


async def say(
    emit: Any,
    url: str,
    key: str,
    text: str,
    binding: str = "JSONRPC",
    number: str = "1",
    task: str | None = None,
    context: str | None = None,
    system: str = "demo",
) -> Any:
    part = Part(root=TextPart(text=text))
    message = Message(message_id=number, role="user", parts=[part], task_id=task, context_id=context)
    async with peer(url, key, binding, system) as client:
        return await followed(client.send_message(message), emit)


async def again(emit: Any, url: str, key: str, task: str, binding: str = "JSONRPC", system: str = "demo") -> Any:
    """Subscribe to a task; it is as it is at the end."""
    async with peer(url, key, binding, system) as client:
        said = await followed(client.resubscribe(TaskIdParams(id=task)), emit)
        return shown(await client.get_task(TaskQueryParams(id=task))) | {"error": said["error"]}


async def cancel(emit: Any, url: str, key: str, task: str, binding: str = "JSONRPC") -> Any:
    async with peer(url, key, binding) as client:
        return shown(await client.cancel_task(TaskIdParams(id=task)))
