"""The scripted model: a chat model that plays a script instead of calling a provider.

Its output is a pure function of the conversation, so retries, resumes and parallel
runs get the same text. It is the only fake: graph, tools, stream and log are real.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCallChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from stellwerk.agents.runtime.conversation import input_documents, request_text, since_input
from stellwerk.agents.scripted.templates import MAX_SEARCHED, TemplateFiller, first_failure
from stellwerk.errors import ScriptedFailure
from stellwerk.ids import digest_id
from stellwerk.spec.script import ScriptCall, ScriptRule, ScriptStep

_NO_RULE = ScriptStep(say="I have nothing to say to that.")
_DONE = ScriptStep(say="I have done all that my script says.")
_CHUNK_SIZE = 8
"""Characters of the arguments in one chunk, unless that makes too many chunks."""
_MAX_CHUNKS = 100
"""Chunks of one call: each costs a tenth of a millisecond."""


class ToolBindingModel(BaseChatModel):
    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])


class ScriptedModel(ToolBindingModel):
    script: list[ScriptRule]
    model: str = "scripted"
    pace: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model}

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        step = next_step(self.script, messages)
        await asyncio.sleep(step.wait)
        for chunk in self._chunks(step, messages):
            # Also without a pace: unless the model yields to the loop, all chunks arrive at once.
            await asyncio.sleep(self.pace)
            yield chunk

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        # On the loop and not in a thread, so that a stop need not wait for the end of a `wait`.
        step = next_step(self.script, messages)
        await asyncio.sleep(step.wait)
        return generate_from_stream(self._chunks(step, messages))

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        step = next_step(self.script, messages)
        time.sleep(step.wait)
        yield from self._chunks(step, messages)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return generate_from_stream(self._stream(messages))

    def _chunks(self, step: ScriptStep, messages: list[BaseMessage]) -> Iterator[ChatGenerationChunk]:
        filler = TemplateFiller(messages)
        words = re.findall(r"\S+\s*", filler.fill(step.say))
        calls = [(call.call, filler.fill(call.args, whole=True)) for call in _calls(step)]
        pieces = [AIMessageChunk(content=word) for word in words]
        pieces += chunk_tool_calls(calls, messages)
        for piece in pieces:
            yield ChatGenerationChunk(message=piece)
        if step.fail is not None:
            raise ScriptedFailure(filler.fill(step.fail))
        read = sum(len(str(message.text).split()) for message in messages)
        said = len(pieces)
        usage = UsageMetadata(input_tokens=read, output_tokens=said, total_tokens=read + said)
        metadata = {"finish_reason": "tool_calls" if calls else "stop", "model_name": self.model}
        end = AIMessageChunk(content="", chunk_position="last", response_metadata=metadata, usage_metadata=usage)
        yield ChatGenerationChunk(message=end)


def next_step(script: Sequence[ScriptRule], messages: Sequence[BaseMessage]) -> ScriptStep:
    """The next step of the first matching rule; the model's answers of this turn count as played."""
    asked = request_text(messages)[:MAX_SEARCHED].casefold()
    said = since_input(messages)
    for rule in script:
        if rule.documents and not input_documents(messages, rule.documents):
            continue
        if isinstance(rule.when, int):
            number = _turns(said) + 1 - rule.when
            if 0 <= number < len(rule.steps):
                return rule.steps[number]
        elif rule.when is None or _mentions(asked, rule.when):
            return _step_of(rule, said)
    return _NO_RULE


def _step_of(rule: ScriptRule, said: Sequence[BaseMessage]) -> ScriptStep:
    failed = first_failure(said) if rule.failed else None
    if failed is None:
        return _step_or_last(rule.steps, _turns(said))
    return _step_or_last(rule.failed, _turns(said[said.index(failed) :]))


def _turns(messages: Sequence[BaseMessage]) -> int:
    return sum(isinstance(message, AIMessage) for message in messages)


def _mentions(asked: str, when: str | list[str]) -> bool:
    """Whether a word of the text starts like this, or like one of these."""
    starts = [when] if isinstance(when, str) else when
    return any(re.search(rf"(?<!\w){re.escape(start.casefold())}", asked) for start in starts)


def _step_or_last(steps: Sequence[ScriptStep], number: int) -> ScriptStep:
    """A last step with text is repeated; one with calls is not: the turn would never end."""
    if number < len(steps):
        return steps[number]
    return _DONE if _calls(steps[-1]) else steps[-1]


def _calls(step: ScriptStep) -> list[ScriptCall]:
    single = [] if step.call is None else [ScriptCall(call=step.call, args=step.args)]
    return [*single, *step.calls]


def chunk_tool_calls(
    calls: Sequence[tuple[str, Mapping[str, Any]]], messages: Sequence[BaseMessage]
) -> Iterator[AIMessageChunk]:
    """Tool calls as a provider streams them: name and id first, then the arguments in small chunks.

    Ids are derived from the conversation: a retry of the same step repeats the same calls, and
    no two calls of one conversation share an id.
    """
    answers = [message for message in messages if isinstance(message, AIMessage)]
    taken = {call["id"] for answer in answers for call in answer.tool_calls}
    for index, (name, args) in enumerate(calls):
        call_id = _unused_id(name, len(messages), taken)
        taken.add(call_id)
        yield _chunk(tool_call_chunk(name=name, args="", id=call_id, index=index))
        text = json.dumps(args)
        size = max(_CHUNK_SIZE, len(text) // _MAX_CHUNKS)
        for start in range(0, len(text), size):
            yield _chunk(tool_call_chunk(args=text[start : start + size], index=index))


def _chunk(part: ToolCallChunk) -> AIMessageChunk:
    return AIMessageChunk(content="", tool_call_chunks=[part])


def _unused_id(name: str, position: int, taken: set[str | None]) -> str:
    # A shortened history can repeat a position, and one step may call one tool twice.
    again = 0
    while (found := f"call_{digest_id(name, str(position), str(again))[:12]}") in taken:
        again += 1
    return found
