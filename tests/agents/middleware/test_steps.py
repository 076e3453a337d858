"""max_steps and only_one_model_call: how often the model is asked for one input."""

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.types import interrupt

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.spec.model import AgentConfig
from tests.agents.middleware.conversations import Conversation, call, model, say, spoken


@tool
async def look(at: str) -> str:
    "Look at something."
    return f"saw {at}"


@tool
async def ask(question: str) -> str:
    "Ask the user."
    return str(interrupt({"question": question}))


@pytest.mark.requirement("004.yaml.max-steps", "000.factory.middleware-loop-control")
async def test_an_agent_that_goes_on_too_long_ends_with_a_plain_message() -> None:
    chat = model(*[call("look", at="a") for _ in range(9)])
    said = await Conversation(AgentConfig(max_steps=2), chat, [look]).send("go")
    assert len(chat.asked) == 2
    assert spoken(said) == [
        ("ai", ""),
        ("tool", "saw a"),
        ("ai", ""),
        ("tool", "saw a"),  # what the last step asked for still runs: no call is left without its result
        ("ai", "I stop here: I have used all 2 steps that I have for one message."),
    ]


async def test_the_last_message_has_an_id_and_the_agents_name_in_the_updates() -> None:
    talk = Conversation(AgentConfig(max_steps=1), model(*[call("look", at="a") for _ in range(9)]), [look])
    last = (await talk.updates({"messages": [("user", "go")]}))[-1]["model"]["messages"][0]
    assert isinstance(last, AIMessage)
    assert last.id and last.name == "boss"


async def test_an_answer_in_the_last_step_is_not_touched() -> None:
    said = await Conversation(AgentConfig(max_steps=2), model(call("look", at="a"), say("fine")), [look]).send("go")
    assert spoken(said)[-1] == ("ai", "fine")


async def test_every_input_has_all_steps_again(saver: DurableSaver) -> None:
    chat = model(*[call("look", at="a") for _ in range(9)])
    talk = Conversation(AgentConfig(max_steps=2), chat, [look], saver=saver)
    await talk.send("first")
    await talk.send("second")
    assert len(chat.asked) == 4


async def test_a_question_in_between_does_not_give_new_steps(saver: DurableSaver) -> None:
    chat = model(call("ask", question="sure?"), *[call("look", at="a") for _ in range(9)])
    talk = Conversation(AgentConfig(max_steps=3), chat, [look, ask], saver=saver)
    await talk.send("go")
    [question] = await talk.questions()
    said = await talk.resume({question.id: "yes"})
    assert len(chat.asked) == 3
    assert "used all 3 steps" in str(said[-1].text)


@pytest.mark.requirement("000.config.only-one-model-call")
async def test_with_only_one_model_call_the_tool_results_are_the_end(saver: DurableSaver) -> None:
    chat = model(call("look", "look", at="a"), say("never said"))
    talk = Conversation(AgentConfig(only_one_model_call=True), chat, [look], saver=saver)
    assert spoken(await talk.send("go")) == [("ai", ""), ("tool", "saw a"), ("tool", "saw a")]
    assert len(chat.asked) == 1
    await talk.send("again")
    assert len(chat.asked) == 2


async def test_with_only_one_model_call_an_answer_without_tools_is_the_answer() -> None:
    said = await Conversation(AgentConfig(only_one_model_call=True), model(say("at once"))).send("go")
    assert spoken(said) == [("ai", "at once")]
