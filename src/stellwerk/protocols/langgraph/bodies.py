"""Requests of LangGraph's API, and what of them our runs take: fields that are not known are ignored."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET, Struct

from stellwerk.agents.graphs.parameters import is_reserved
from stellwerk.agents.runtime.conversation import RunParameters
from stellwerk.api.schema.shared import LATEST, TEXT_LIMIT, RunConfig, run_parameters
from stellwerk.errors import InvalidField
from stellwerk.runs.commands import IfBusy, JobOptions
from stellwerk.tenants.principals import Principal

_MODES = {
    *("values", "updates", "messages", "messages-tuple", "custom"),
    *("events", "debug", "tasks", "checkpoints"),
}
STRATEGIES: Mapping[str, IfBusy] = {
    "reject": "reject",
    "enqueue": "enqueue",
    "interrupt": "interrupt",
    "rollback": "interrupt",
}


class ResumeCommand(Struct):
    resume: Any = UNSET
    goto: Any = None
    update: Any = None


class RunBody(Struct):
    assistant_id: str | None = None
    input: Any = None
    command: ResumeCommand | None = None
    checkpoint: dict[str, Any] | None = None
    checkpoint_id: str | None = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    stream_mode: str | list[str] | None = None
    stream_subgraphs: bool | None = False
    on_disconnect: str | None = None
    on_completion: str | None = None
    multitask_strategy: str | None = None
    if_not_exists: str | None = None
    interrupt_before: Any = None
    interrupt_after: Any = None
    after_seconds: float | None = None
    webhook: str | None = None

    @property
    def wanted_checkpoint(self) -> str | None:
        configured = (self.config or {}).get("configurable") or {}
        found = self.checkpoint_id or (self.checkpoint or configured).get("checkpoint_id")
        return None if found is None else str(found)

    @property
    def if_busy(self) -> IfBusy:
        strategy = self.multitask_strategy or "enqueue"
        if strategy not in STRATEGIES:
            raise InvalidField(f"multitask_strategy: choose one of {', '.join(STRATEGIES)}", field="multitask_strategy")
        return STRATEGIES[strategy]

    def modes(self, default: Sequence[str]) -> frozenset[str]:
        return wanted_modes(self.stream_mode, default)

    def options(self, now: float) -> JobOptions:
        delay = self.after_seconds
        if delay is not None and not 0 <= delay <= LATEST:
            raise InvalidField("after_seconds: a run starts within a year", field="after_seconds")
        return JobOptions(start_at=None if delay is None else now + delay, webhook=self.webhook)

    def check_supported(self) -> None:
        """Raises ``InvalidField`` for what would change the run, and cannot be done."""
        if self.interrupt_before or self.interrupt_after:
            field = "interrupt_before" if self.interrupt_before else "interrupt_after"
            said = "breakpoints are set when the graph is compiled"
            raise InvalidField(f"{field}: {said}; leave this out", field=field)

    def parameters(self, who: Principal, given_input: Any) -> RunParameters:
        config = {name: value for name, value in (self.config or {}).items() if name in RunConfig.model_fields}
        config = {name: value for name, value in config.items() if value not in (None, {}, [])}
        if self.metadata and isinstance(config.get("metadata", {}), dict):
            config["metadata"] = {**config.get("metadata", {}), **self.metadata}
        for part in ("configurable", "metadata"):
            if isinstance(config.get(part), dict):
                own = {key: value for key, value in config[part].items() if not is_reserved(key)}
                config = {**config, part: own} if own else {k: v for k, v in config.items() if k != part}
        shaped = checked_config(config) if config else None
        return run_parameters(who, given_input, shaped, self.context or None)


class File(NamedTuple):
    """A file inside of a message: its data URL, or the id of a stored one."""

    name: str | None
    url: str | None = None
    document_id: str | None = None


class NewestMessage(NamedTuple):
    """The new message of an input."""

    text: str
    message_id: str | None = None
    files: Sequence[File] = ()


def checked_config(config: dict[str, Any]) -> RunConfig:
    try:
        return RunConfig.model_validate(config)
    except ValueError as error:
        raise InvalidField(f"config: {str(error)[:300]}", field="config") from None


def wanted_modes(given: str | Sequence[str] | None, default: Sequence[str]) -> frozenset[str]:
    modes = [given] if isinstance(given, str) else given or default
    for mode in modes:
        if mode not in _MODES:
            raise InvalidField(
                f"stream_mode: {mode[:40]!r} is none of {', '.join(sorted(_MODES))}", field="stream_mode"
            )
    return frozenset(modes)


def said_in(given: Any) -> tuple[NewestMessage | None, dict[str, Any] | None]:
    """The last message of the user, and the other keys of the input.

    What else is in the list is in the log already, or none of the user's: clients send tool messages
    of their own with a message that comes while a tool is open.
    """
    if isinstance(given, list):
        given = {"messages": given}
    if given is not None and not isinstance(given, dict):
        raise InvalidField("input: this must be an object", field="input")
    messages = (given or {}).get("messages")
    others = {key: value for key, value in (given or {}).items() if key != "messages" and value is not None}
    listed = messages if isinstance(messages, list) else [] if messages is None else [messages]
    for message in reversed(listed):
        if (said := _said(message)) is not None:
            return said, others or None
    return None, others or None


def _said(message: Any) -> NewestMessage | None:
    match message:
        case str():
            return NewestMessage(_checked(message))
        case [("user" | "human"), str(text)]:
            return NewestMessage(_checked(text))
        case {"content": content} if (message.get("type") or message.get("role")) in ("human", "user"):
            known = message.get("id")
            message_id = known if isinstance(known, str) and known else None
            return NewestMessage(_checked(_text(content)), message_id, _files(content))
    return None


def _files(content: Any) -> list[File]:
    """In the forms of LangChain's content blocks, and ``image_url`` of OpenAI."""
    found = list[File]()
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
                found.append(File(None, url))
            case {"type": "file", "file_id": str(document_id)}:
                found.append(File(None, document_id=document_id))
            case {"type": "image" | "file" | "audio" | "video"}:
                found.append(_inline(part))
    return found


def _inline(part: dict[str, Any]) -> File:
    given = [part.get("metadata"), part.get("extras")]
    known = [each.get(key) for each in given if isinstance(each, dict) for key in ("filename", "name")]
    name = next((each for each in known if isinstance(each, str) and each), None)
    mime = part.get("mime_type") or part.get("mimeType") or ""
    data = part.get("base64") or part.get("data")
    url = f"data:{mime};base64,{data}" if isinstance(data, str) else str(part.get("url") or "")
    return File(name, url)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = [part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, str | dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _checked(text: str) -> str:
    if len(text) > TEXT_LIMIT:
        raise InvalidField(f"input: a message has at most {TEXT_LIMIT} characters", field="input.messages")
    return text if text.strip() else ""
