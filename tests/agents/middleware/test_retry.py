"""model_retries: a model call that fails is tried again, as long as it has not said a word."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp

from stellwerk.agents.middleware.calls import RetryPolicy, is_transient
from stellwerk.agents.runtime.callback_handler import RunCallbackHandler
from stellwerk.errors import StellwerkError
from stellwerk.spec.model import AgentConfig
from tests.agents.middleware.conversations import Conversation, spoken
from tests.samples import SteadyClock


class ProviderError(Exception):
    """As the clients of providers raise it."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


class Unreliable(BaseChatModel):
    """Streams word by word, and fails as often as it has errors left: before its first word, or in the middle."""

    errors: list[Any]
    midway: bool = False
    streaming: bool = False
    attempts: list[int] = []

    @property
    def _llm_type(self) -> str:
        return "unreliable"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.attempts.append(len(self.attempts))
        yield ChatGenerationChunk(message=AIMessageChunk(content=""))  # providers begin with an empty piece
        if self.errors and not self.midway:
            raise self.errors.pop(0)
        yield ChatGenerationChunk(message=AIMessageChunk(content="two "))
        if self.errors:
            raise self.errors.pop(0)
        yield ChatGenerationChunk(message=AIMessageChunk(content="words", chunk_position="last"))


class Waits:
    """Stands in for time: remembers how long it should have been waited."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def retry_policy(self, retries: int) -> RetryPolicy:
        return RetryPolicy(retries, sleep=self.sleep, chance=lambda: 1.0)


async def streamed(chat: BaseChatModel, retry_policy: RetryPolicy, *, as_run: bool = True) -> list[str]:
    """The tokens that a reader of the run, or of the graph by itself, sees."""
    graph = Conversation(AgentConfig(), chat, retry_policy=retry_policy).graph
    config: RunnableConfig = {"callbacks": [RunCallbackHandler(lambda fact: None, SteadyClock())] if as_run else []}
    parts = graph.astream({"messages": [("user", "go")]}, config, stream_mode=["messages"], version="v2")
    return [str(part["data"][0].text) async for part in parts if part["data"][0].text]


@pytest.mark.parametrize("as_run", [True, False])
async def test_a_call_that_fails_before_its_first_word_is_tried_again(as_run: bool) -> None:
    waits, chat = Waits(), Unreliable(errors=[ConnectionError(), ProviderError(503)])
    assert await streamed(chat, waits.retry_policy(3), as_run=as_run) == ["two ", "words"]
    assert len(chat.attempts) == 3
    assert waits.seconds == [0.5, 1.0]


@pytest.mark.parametrize("as_run", [True, False])
async def test_a_call_that_has_spoken_is_not_tried_again(as_run: bool) -> None:
    waits, chat = Waits(), Unreliable(errors=[ConnectionError("gone")], midway=True)
    with pytest.raises(ConnectionError, match="gone"):
        await streamed(chat, waits.retry_policy(3), as_run=as_run)
    assert (len(chat.attempts), waits.seconds) == (1, [])


async def test_after_the_last_attempt_the_original_error_is_raised() -> None:
    waits, chat = Waits(), Unreliable(errors=[ProviderError(429) for _ in range(9)])
    with pytest.raises(ProviderError) as raised:
        await streamed(chat, waits.retry_policy(2))
    assert raised.value.status_code == 429
    assert len(chat.attempts) == 3


@pytest.mark.parametrize("error", [ProviderError(400), ProviderError(401), StellwerkError("ours"), GraphBubbleUp()])
async def test_what_cannot_become_better_is_not_tried_again(error: Exception) -> None:
    assert not is_transient(error)


async def test_a_request_that_the_provider_calls_wrong_is_sent_once() -> None:
    waits, chat = Waits(), Unreliable(errors=[ProviderError(401)])
    with pytest.raises(ProviderError):
        await streamed(chat, waits.retry_policy(3))
    assert (len(chat.attempts), waits.seconds) == (1, [])


async def test_without_retries_the_first_failure_counts() -> None:
    chat = Unreliable(errors=[ConnectionError()], streaming=True)
    with pytest.raises(ConnectionError):
        await Conversation(AgentConfig(model_retries=0), chat).send("go")
    assert len(chat.attempts) == 1


async def test_a_retry_is_one_step_all_the_same() -> None:
    waits, chat = Waits(), Unreliable(errors=[ConnectionError(), ConnectionError()], streaming=True)
    said = await Conversation(AgentConfig(max_steps=1), chat, retry_policy=waits.retry_policy(3)).send("go")
    assert spoken(said) == [("ai", "two words")]


def test_the_delays_double_up_to_eight_seconds_and_are_spread() -> None:
    longest, shortest = RetryPolicy(10, chance=lambda: 1.0), RetryPolicy(10, chance=lambda: 0.0)
    assert [longest.delay(n) for n in range(6)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert [shortest.delay(n) for n in range(2)] == [0.25, 0.5]
