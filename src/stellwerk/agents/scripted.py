"""The scripted model: plays a script instead of asking a provider.

It is a pure function of the conversation, so retries, resumes and parallel runs
all get the same words. It is the one stand-in there is; everything behind it,
graph, tools, stream and log, is real.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from stellwerk.agents.call_pieces import call_pieces
from stellwerk.agents.middleware.conversation import documents_of, since_input, wish_of
from stellwerk.agents.quoting import HEARD, Quotes, first_failure
from stellwerk.errors import ScriptedFailure
from stellwerk.spec.script import ScriptCall, ScriptRule, ScriptStep

_SILENT = ScriptStep(say="I have nothing to say to that.")
_DONE = ScriptStep(say="I have done all that my script says.")


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
        step = next_step(self.script, messages)
        await asyncio.sleep(step.wait)
        for chunk in self._chunks(step, messages):
            # Also without a pace: a model that never yields to the loop hands over everything at its end.
            await asyncio.sleep(self.pace)
            yield chunk

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        # On the loop, not on a thread: whoever stops the run must not have to wait until a `wait` is over.
        step = next_step(self.script, messages)
        await asyncio.sleep(step.wait)
        return _whole(self._chunks(step, messages))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        step = next_step(self.script, messages)
        time.sleep(step.wait)
        yield from self._chunks(step, messages)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _whole(self._stream(messages))

    def _chunks(self, step: ScriptStep, messages: list[BaseMessage]) -> Iterator[ChatGenerationChunk]:
        wanted, quotes, said = _calls(step), Quotes(messages), 0
        words = (AIMessageChunk(content=word[0]) for word in re.finditer(r"\S+\s*", quotes.filled(step.say)))
        calls = [(call.call, quotes.filled(call.args, whole=True)) for call in wanted]
        for piece in chain(words, call_pieces(calls, messages)):
            said += 1
            yield ChatGenerationChunk(message=piece)
        if step.fail is not None:
            raise ScriptedFailure(quotes.filled(step.fail))
        read = sum(len(str(message.text).split()) for message in messages)
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                chunk_position="last",
                response_metadata={"finish_reason": "tool_calls" if wanted else "stop", "model_name": self.model},
                usage_metadata=UsageMetadata(input_tokens=read, output_tokens=said, total_tokens=read + said),
            )
        )


def next_step(script: Sequence[ScriptRule], messages: Sequence[BaseMessage]) -> ScriptStep:
    """The step for this point of the round: the first rule that fits, as far on as the model has spoken."""
    asked = wish_of(messages)[:HEARD].casefold()
    said = since_input(messages)
    for rule in script:
        if rule.documents and not documents_of(messages, rule.documents):
            continue
        if isinstance(rule.when, int):
            if 0 <= _turns(said) + 1 - rule.when < len(rule.steps):
                return rule.steps[_turns(said) + 1 - rule.when]
        elif rule.when is None or _says(asked, rule.when):
            return _step_of(rule, said)
    return _SILENT


def _step_of(rule: ScriptRule, said: Sequence[BaseMessage]) -> ScriptStep:
    failed = first_failure(said) if rule.failed else None
    if failed is None:
        return _step_or_last(rule.steps, _turns(said))
    return _step_or_last(rule.failed, _turns(said[said.index(failed) :]))


def _turns(messages: Sequence[BaseMessage]) -> int:
    return sum(isinstance(message, AIMessage) for message in messages)


def _says(asked: str, when: str | list[str]) -> bool:
    return any(_begins_in(asked, word.casefold()) for word in ([when] if isinstance(when, str) else when))


def _begins_in(text: str, word: str) -> bool:
    """Whether some word of the text begins like this."""
    at = text.find(word)
    while at > 0 and re.match(r"\w", text[at - 1]):
        at = text.find(word, at + 1)
    return at >= 0


def _step_or_last(steps: Sequence[ScriptStep], number: int) -> ScriptStep:
    """Words may be said again; a call that was made again and again would never let the round end."""
    if number < len(steps):
        return steps[number]
    return _DONE if _calls(steps[-1]) else steps[-1]


def _calls(step: ScriptStep) -> list[ScriptCall]:
    single = [] if step.call is None else [ScriptCall(call=step.call, args=step.args)]
    return [*single, *step.calls]


def _whole(chunks: Iterator[ChatGenerationChunk]) -> ChatResult:
    first, *rest = (chunk.message for chunk in chunks)
    # All at once: added one by one, the arguments of a call would be read again for every piece of them.
    whole = message_chunk_to_message(first + rest)
    return ChatResult(generations=[ChatGeneration(message=whole)])
