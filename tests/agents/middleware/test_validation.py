"""validation_prompt: an answer is held back until the judge accepts it, for a bounded number of rounds."""

from typing import Any
from uuid import UUID

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.types import interrupt

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.middleware.calls import RetryPolicy
from stellwerk.agents.runtime.budget import spending
from stellwerk.agents.runtime.shapes import HELD
from stellwerk.errors import QuotaExceeded
from stellwerk.spec.model import AgentConfig, Quotas
from stellwerk.spec.script import ScriptRule, ScriptStep
from tests.agents.middleware.conversations import Conversation, Overheard, call, model, say, spoken

NUMBERS = AgentConfig(validation_prompt="A good answer has a number in it.", validation_rounds=2)


def judged(*answers: ScriptStep, ok: str = "42") -> Overheard:
    """Gives these answers in turn; as a judge, it accepts those with the right words in them."""
    verdicts = [
        ScriptRule(when=f"judged:\n{ok}", steps=[say("OK")]),
        ScriptRule(when="judged:", steps=[say("number missing")]),
    ]
    return Overheard(script=[*verdicts, ScriptRule(steps=list(answers))])


@pytest.mark.requirement("000.config.validation-prompt", "000.factory.middleware-validation")
async def test_a_refused_answer_is_written_again_until_it_is_accepted(saver: DurableSaver) -> None:
    talk = Conversation(NUMBERS, judged(say("it is large"), say("42 it is")), saver=saver)
    said = await talk.send("how large?")
    assert spoken(said) == [
        ("ai", "it is large"),
        (
            "human",
            "Your answer was refused and nobody has seen it: number missing\nWrite it again, as a whole.",
        ),
        ("ai", "42 it is"),
    ]
    assert said[1].name == "validator"
    state = (await talk.graph.aget_state(talk.config)).values
    assert state["validated_agent_output"] == "42 it is"


async def test_the_judge_is_asked_with_the_prompt_the_question_and_the_answer() -> None:
    chat = judged(say("42 it is"))
    await Conversation(NUMBERS, chat).send("how large?")
    rule, question, answer = chat.asked[1]
    assert str(rule.text).startswith("A good answer has a number in it.\n\nReply with the single word OK")
    assert (question.text, answer.text) == ("The question:\nhow large?", "The answer to be judged:\n42 it is")


async def test_the_update_of_the_validation_says_which_message_may_be_shown() -> None:
    talk = Conversation(NUMBERS, judged(say("it is large"), say("42 it is")))
    updates = await talk.updates({"messages": [("user", "how large?")]})
    written = [update["model"]["messages"][0] for update in updates if "model" in update]
    refused, accepted = [update["Validation.after_model"] for update in updates if "Validation.after_model" in update]
    assert refused["messages"][0].name == "validator"
    assert accepted["validated_agent_output"] == "42 it is"
    assert [message.id for message in accepted["messages"]] == [written[1].id]


class Ears(BaseCallbackHandler):
    run_inline = True

    def __init__(self) -> None:
        self.tags: list[list[str]] = []

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.tags.append([tag for tag in tags or [] if not tag.startswith("seq:")])


async def test_the_answers_are_tagged_to_be_held_back_and_the_judge_to_be_silent() -> None:
    @tool
    async def look() -> str:
        "Look."
        return "seen"

    ears = Ears()
    graph = Conversation(NUMBERS, judged(call("look"), say("42")), [look]).graph
    await graph.ainvoke({"messages": [("user", "go")]}, {"callbacks": [ears]})
    assert ears.tags == [["nostream", HELD], ["nostream", HELD], ["nostream"]]


async def test_the_last_answer_is_taken_as_it_is_and_not_judged_again() -> None:
    chat = judged(say("large"), say("larger"), say("largest"))
    talk = Conversation(NUMBERS, chat)
    result = await talk.graph.ainvoke({"messages": [("user", "how large?")]})
    assert result["validated_agent_output"] == "largest"
    assert len(chat.asked) == 5  # three answers, two judgements


async def test_every_input_has_its_rounds_and_no_answer_of_an_earlier_one(saver: DurableSaver) -> None:
    chat = judged(*[say("large") for _ in range(4)])
    talk = Conversation(NUMBERS, chat, saver=saver)
    for text in ("first", "second"):
        assert [kind for kind, _ in spoken(await talk.send(text))] == ["ai", "human", "ai", "human", "ai"]
    written = [update["model"] for update in await talk.updates({"messages": [("user", "third")]}) if "model" in update]
    assert written[0]["validated_agent_output"] == ""


async def test_only_answers_are_judged_not_the_way_to_them() -> None:
    @tool
    async def look() -> str:
        "Look."
        return "seen"

    chat = judged(call("look"), say("42"))
    said = await Conversation(NUMBERS, chat, [look]).send("go")
    assert [kind for kind, _ in spoken(said)] == ["ai", "tool", "ai"]
    assert len(chat.asked) == 3


async def test_a_validated_agent_may_still_run_out_of_steps() -> None:
    config = NUMBERS.model_copy(update={"max_steps": 1})
    said = await Conversation(config, judged(say("large"), say("42"))).send("how large?")
    assert spoken(said)[-1] == ("ai", "I stop here: I have used all 1 steps that I have for one message.")


async def test_a_judge_that_fails_is_asked_again_and_then_ends_the_run() -> None:
    class Broken(Overheard):
        async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
            if "to be judged" in str(messages[-1].text):
                self.asked.append(messages)
                raise ConnectionError("no judge")
            return await super()._agenerate(messages, *args, **kwargs)

    async def sleep(seconds: float) -> None:
        pass

    chat = Broken(script=model(say("42")).script)
    with pytest.raises(ConnectionError, match="no judge"):
        await Conversation(NUMBERS, chat, retry_policy=RetryPolicy(2, sleep=sleep)).send("go")
    assert len(chat.asked) == 4  # one answer, three times the judge


@pytest.mark.parametrize(
    ("verdict", "good"),
    [
        ("OK", True),
        (" **ok**.\n", True),
        ("OK is what I cannot say: it leaks a name", False),
        ("ok, but it is too long", False),
        ("Not ok", False),
        ("", False),
    ],
)
async def test_only_a_verdict_that_is_nothing_but_ok_lets_an_answer_out(verdict: str, good: bool) -> None:
    chat = model(say("an answer"), say("another"), judged=[say(verdict)])
    talk = Conversation(NUMBERS.model_copy(update={"validation_rounds": 1}), chat)
    said = spoken(await talk.send("go"))
    assert said[-1] == ("ai", "an answer" if good else "another")


async def test_the_judge_is_a_step_and_what_it_costs_is_known_after_a_question(saver: DurableSaver) -> None:
    @tool
    async def ask() -> str:
        "Ask the user."
        return str(interrupt("sure?"))

    chat = judged(say("large"), call("ask"), say("42"))
    talk = Conversation(NUMBERS, chat, [ask], saver=saver)
    with spending() as before:
        await talk.send("how large?")
    assert before.used == 3  # an answer, its judgement, a tool call
    [question] = await talk.questions()
    with spending() as after:  # another process, perhaps: nothing is known but the checkpoint
        await talk.resume({question.id: "yes"})
    assert after.used == len(chat.asked) == 5
    assert after.spent.tokens > before.spent.tokens
    with spending(quotas=Quotas(steps=2)), pytest.raises(QuotaExceeded):
        await talk.send("once more")
