"""OpenAI's client for Python, of this major version and the one before: the functions of openai.mjs."""

from typing import Any

import httpx
import openai


def client(url: str, key: str) -> Any:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=120)


def failure(error: Exception) -> dict[str, Any]:
    known = {name: getattr(error, name, None) for name in ("status", "code")}
    return {**known, "status": getattr(error, "status_code", None), "message": str(error)}


async def models(emit: Any, url: str, key: str) -> list[str]:
    return [model.id async for model in client(url, key).models.list()]


async def complete(
    emit: Any,
    url: str,
    key: str,
    text: str,
    model: str = "demo",
    session: str = "",
    stream: bool = True,
    more: Any = None,
) -> Any:
    said: dict[str, Any] = {"text": "", "finish": None, "session": None, "usage": None, "error": None}
    body = {"model": model, "messages": [{"role": "user", "content": text}], "stream": stream, **(more or {})}
    headers = {"X-Session-Id": session} if session else {}
    try:
        raw = await client(url, key).chat.completions.with_raw_response.create(**body, extra_headers=headers)
        said["session"] = raw.headers["x-session-id"]
        answer = raw.parse()
        if not stream:
            take(said, answer, lambda choice: choice.message)
            return said
        async for chunk in answer:
            take(said, chunk, lambda choice: choice.delta)
            emit("text", said["text"])
    except (openai.APIError, httpx.HTTPError) as error:
        said["error"] = failure(error)
    return said


def take(said: dict[str, Any], chunk: Any, part: Any) -> None:
    said["usage"] = chunk.usage.model_dump() if chunk.usage else said["usage"]
    for choice in chunk.choices:
        said["text"] += part(choice).content or ""
        said["finish"] = choice.finish_reason or said["finish"]


async def respond(
    emit: Any,
    url: str,
    key: str,
    model: str = "demo",
    input: str = "",
    previous: str | None = None,
    conversation: str | None = None,
    response: str | None = None,
    after: int = 0,
) -> Any:
    said: dict[str, Any] = {"id": response, "text": "", "numbers": [], "last": None, "error": None}
    responses = client(url, key).responses
    named = {"previous_response_id": previous, "conversation": conversation}
    asked = {name: value for name, value in named.items() if value is not None}
    try:
        events = await (
            responses.retrieve(response, stream=True, starting_after=after)
            if response
            else responses.create(model=model, input=input, stream=True, **asked)
        )
        async for event in events:
            if not said["id"]:
                said["id"] = event.response.id
                emit("id", said["id"])
            said["numbers"].append(event.sequence_number)
            said["last"] = event.type
            said["text"] += event.delta if event.type == "response.output_text.delta" else ""
            emit("text", said["text"])
        whole = await responses.retrieve(said["id"])
        said |= {"output": whole.output_text, "conversation": whole.conversation and whole.conversation.id}
    except (openai.APIError, httpx.HTTPError) as error:
        said["error"] = failure(error)
    return said


async def cancel(emit: Any, url: str, key: str, response: str) -> Any:
    return (await client(url, key).responses.cancel(response)).status
