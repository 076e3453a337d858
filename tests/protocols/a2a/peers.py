"""A peer that calls agents by A2A: the package's own client, with the task that its updates add up to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, create_client
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import a2a_pb2 as pb

from tests import keyed

_numbers = count(1)
_PATIENT = {"timeout": 60}
"""The first request of a server imports the package; later ones have the client's own five seconds."""


@dataclass
class Seen:
    """What a stream has shown."""

    events: list[pb.StreamResponse] = field(default_factory=list)
    task_id: str = ""
    context_id: str = ""
    state: str = ""
    question: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n\n".join(filter(None, self.texts.values()))

    def add(self, event: pb.StreamResponse) -> None:
        self.events.append(event)
        if event.HasField("task"):
            self.task_id, self.context_id = event.task.id, event.task.context_id
            self._status(event.task.status)
            for artifact in event.task.artifacts:
                self._artifact(artifact, append=False)
        if event.HasField("status_update"):
            self._status(event.status_update.status)
        if event.HasField("artifact_update"):
            self._artifact(event.artifact_update.artifact, append=event.artifact_update.append)

    def _status(self, status: pb.TaskStatus) -> None:
        self.state = pb.TaskState.Name(status.state).removeprefix("TASK_STATE_")
        if self.state == "INPUT_REQUIRED":
            self.question = status.message.parts[0].text

    def _artifact(self, artifact: pb.Artifact, *, append: bool) -> None:
        before = self.texts.get(artifact.artifact_id, "") if append else ""
        self.texts[artifact.artifact_id] = before + "".join(part.text for part in artifact.parts)
        self.files += [part.url for part in artifact.parts if part.url]


def message(text: str, **more: Any) -> pb.SendMessageRequest:
    more.setdefault("message_id", f"message {next(_numbers)}")
    return pb.SendMessageRequest(message=pb.Message(role=pb.ROLE_USER, parts=[pb.Part(text=text)], **more))


async def say(client: Client, text: str, **more: Any) -> Seen:
    seen = Seen()
    async for event in client.send_message(message(text, **more)):
        seen.add(event)
    return seen


def shown(task: pb.Task) -> Seen:
    seen = Seen()
    seen.add(pb.StreamResponse(task=task))
    return seen


@asynccontextmanager
async def peer_of(
    address: str,
    *,
    binding: str = "JSONRPC",
    version: str = "1.0",
    streaming: bool = True,
    key: str | None = None,
    system: str = "demo",
) -> AsyncIterator[Client]:
    headers = keyed.shown_to(address) if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers) as http:
        card = await A2ACardResolver(http, f"{address}/a2a/{system}").get_agent_card(http_kwargs=_PATIENT)
        chosen = [
            each
            for each in card.supported_interfaces
            if (each.protocol_binding, each.protocol_version) == (binding, version)
        ]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(chosen)
        config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[binding])
        yield await create_client(card, config)
