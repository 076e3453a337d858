"""The scripted model: plays a script instead of asking a provider.

It is a pure function of the conversation, so retries, resumes and parallel runs
all get the same words. It is the one stand-in there is; everything behind it,
graph, tools, stream and log, is real.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from stellwerk.ids import digest_id
from stellwerk.spec.model import ScriptRule, ScriptStep

_ARGUMENT_PIECE = 8
_QUOTED = 200
"""Characters of the user's text that a script may quote."""


class ScriptedModel(BaseChatModel):
    script: list[ScriptRule]
    model: str = "scripted"
    pace: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model}

    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        kwargs.pop("tool_choice", None)
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._chunks(messages):
            # Also without a pace: a model that never yields to the loop hands over everything at its end.
            await asyncio.sleep(self.pace)
            yield chunk

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from self._chunks(messages)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        first, *rest = self._chunks(messages)
        whole = message_chunk_to_message(sum((c.message for c in rest), start=first.message))
        return ChatResult(generations=[ChatGeneration(message=whole)])

    def _chunks(self, messages: list[BaseMessage]) -> Iterator[ChatGenerationChunk]:
        step = next_step(self.script, messages)
        parts = [AIMessageChunk(content=piece) for piece in re.findall(r"\S+\s*", _filled(step.say, messages))]
        parts += _call_pieces(step, messages)
        for part in parts:
            yield ChatGenerationChunk(message=part)
        read = sum(len(str(message.text).split()) for message in messages)
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                chunk_position="last",
                response_metadata={"finish_reason": "tool_calls" if step.call else "stop", "model_name": self.model},
                usage_metadata=UsageMetadata(
                    input_tokens=read, output_tokens=len(parts), total_tokens=read + len(parts)
                ),
            )
        )


def next_step(script: Sequence[ScriptRule], messages: Sequence[BaseMessage]) -> ScriptStep:
    """The step for this point of the round: as many as the model has spoken since the user did."""
    asked = _user_text(messages).casefold()
    rule = next((r for r in script if r.when is None or r.when.casefold() in asked), None)
    if rule is None:
        return ScriptStep(say="I have nothing to say to that.")
    spoken = sum(isinstance(message, AIMessage) for message in _since_user(messages))
    return rule.steps[min(spoken, len(rule.steps) - 1)]


def _call_pieces(step: ScriptStep, messages: Sequence[BaseMessage]) -> Iterator[AIMessageChunk]:
    """The call in the pieces in which providers send it: the name first, then its arguments bit by bit."""
    if step.call is None:
        return
    # Providers may repeat such ids over rounds; within one conversation we do not.
    call_id = f"call_{digest_id(step.call, str(len(messages)))[:12]}"
    yield AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(name=step.call, args="", id=call_id, index=0)])
    text = json.dumps(step.args)
    for start in range(0, len(text), _ARGUMENT_PIECE):
        piece = text[start : start + _ARGUMENT_PIECE]
        yield AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(name=None, args=piece, id=None, index=0)])


def _filled(text: str, messages: Sequence[BaseMessage]) -> str:
    results = [str(m.text) for m in messages if m.type == "tool"]
    asked = _user_text(messages)
    quoted = asked if len(asked) <= _QUOTED else asked[:_QUOTED] + " …"
    return text.replace("{message}", quoted).replace("{result}", results[-1] if results else "")


def _since_user(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    last = max((n for n, m in enumerate(messages) if m.type == "human"), default=-1)
    return messages[last + 1 :]


def _user_text(messages: Sequence[BaseMessage]) -> str:
    return next((str(m.text) for m in reversed(messages) if m.type == "human"), "")
