"""approvals: before a tool runs the user decides: approve, edit, reject, or answer in its place.

Each call is a question of its own, told apart by the id of its interrupt, and answered by that id.
"""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.types import Command

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.spec.model import DECISIONS, AgentConfig
from stellwerk.spec.script import ScriptCall, ScriptStep
from tests.agents.middleware.conversations import Conversation, call, model, say, spoken


class Post:
    """A tool with an effect, and a record of it."""

    def __init__(self) -> None:
        self.sent: list[str] = []

        @tool
        async def mail(to: str) -> str:
            "Send a mail."
            self.sent.append(to)
            return f"sent to {to}"

        @tool
        async def look() -> str:
            "Look."
            self.sent.append("looked")
            return "seen"

        self.tools = [mail, look]


def mails(*to: str, **more: Any) -> ScriptStep:
    return ScriptStep(calls=[ScriptCall(call="mail", args={"to": name}) for name in to], **more)


ASK = AgentConfig(approvals={"mail": list(DECISIONS)})


async def test_a_call_waits_and_the_question_says_what_it_is_about(saver: DurableSaver) -> None:
    post = Post()
    talk = Conversation(ASK, model(mails("Ann"), say("done")), post.tools, saver=saver)
    said = await talk.send("write to Ann")
    assert isinstance(said[-1], AIMessage)
    [question] = await talk.questions()
    assert question.value == {
        "type": "tool_approval",
        "tool_call_id": said[-1].tool_calls[0]["id"],
        "name": "mail",
        "args": {"to": "Ann"},
        "description": "Tool execution requires approval\n\nTool: mail\nArgs: {'to': 'Ann'}",
    }
    assert post.sent == []


@pytest.mark.parametrize(
    ("decision", "done", "seen"),
    [
        ({"type": "approve"}, ["Ann"], "sent to Ann"),
        (
            {"type": "edit", "edited_action": {"name": "mail", "args": {"to": "Bob"}}},
            ["Bob"],
            'Executed instead: mail with arguments {"to": "Bob"}.\n\nTool response:\nsent to Bob',
        ),
        (
            {"type": "reject", "message": "she is ill"},
            [],
            "User rejected the tool call for `mail` with reason: she is ill",
        ),
        ({"type": "respond", "message": "I told her"}, [], "I told her"),
    ],
    ids=lambda value: value.get("type") if isinstance(value, dict) else None,
)
async def test_the_model_hears_what_was_decided(
    saver: DurableSaver, decision: dict[str, Any], done: list[str], seen: str
) -> None:
    post = Post()
    talk = Conversation(ASK, model(mails("Ann"), say("done")), post.tools, saver=saver)
    await talk.send("write to Ann")
    [question] = await talk.questions()
    said = await talk.resume({question.id: decision})
    assert post.sent == done
    assert str(said[-2].text).endswith(seen)
    assert said[-1].text == "done"
    # What the model asked for stays what it asked for, also after an edit.
    assert isinstance(said[1], AIMessage)
    assert said[1].tool_calls[0]["args"] == {"to": "Ann"}


async def test_several_calls_are_decided_one_by_one_and_in_one_go(saver: DurableSaver) -> None:
    post = Post()
    talk = Conversation(ASK, model(mails("Ann", "Bob", "Cleo"), say("done")), post.tools, saver=saver)
    await talk.send("write to all")
    ids = {question.value["args"]["to"]: question.id for question in await talk.questions()}
    assert len(set(ids.values())) == 3
    said = await talk.resume(
        {
            ids["Bob"]: {"type": "reject"},
            ids["Cleo"]: {"type": "respond", "message": "I did"},
            ids["Ann"]: {"type": "approve"},
        }
    )
    assert post.sent == ["Ann"]
    assert [text.split(" with id")[0] for kind, text in spoken(said) if kind == "tool"] == [
        "sent to Ann",
        "User rejected the tool call for `mail`",
        "I did",
    ]


async def test_what_is_done_is_not_done_again_while_others_wait(saver: DurableSaver) -> None:
    post, chat = Post(), model(mails("Ann", "Bob", call="look"), say("done"))
    talk = Conversation(ASK, chat, post.tools, saver=saver)
    await talk.send("write to both")
    assert post.sent == ["looked"]  # no approval needed, no waiting for the others
    ids = {question.value["args"]["to"]: question.id for question in await talk.questions()}

    updates = await talk.updates(Command(resume={ids["Ann"]: {"type": "approve"}}))
    assert post.sent == ["looked", "Ann"]
    # The other question is told again under its id; what was done before is marked as known.
    assert [update["__interrupt__"][0].id for update in updates if "__interrupt__" in update] == [ids["Bob"]]
    again = [update for update in updates if update.get("__metadata__") == {"cached": True}]
    assert [update["tools"]["messages"][0].text for update in again] == ["seen"]

    await talk.resume({ids["Bob"]: {"type": "approve"}})
    assert post.sent == ["looked", "Ann", "Bob"]
    assert len(chat.asked) == 2


async def test_the_question_carries_a_schema_and_only_the_decisions_of_the_rule_are_open(saver: DurableSaver) -> None:
    post = Post()
    config = AgentConfig(approvals={"mail": ["approve", "reject"]})
    talk = Conversation(config, model(mails("Ann"), say("done")), post.tools, saver=saver)
    await talk.send("write to Ann")
    from langgraph.errors import is_invalid_resume

    [question] = await talk.questions()
    schema = question.response_schema
    assert isinstance(schema, dict)
    assert set(schema["discriminator"]["mapping"]) == {"approve", "reject"}
    with pytest.raises(ValueError, match="respond") as refused:
        await talk.resume({question.id: {"type": "respond", "message": "I did"}})
    assert is_invalid_resume(refused.value)
    # A wrong answer changes nothing; the question can be answered again.
    said = await talk.resume({question.id: {"type": "approve"}})
    assert said[-1].text == "done"
    assert post.sent == ["Ann"]


async def test_a_rule_without_decisions_is_open_to_all_of_them(saver: DurableSaver) -> None:
    talk = Conversation(AgentConfig(approvals={"mail": []}), model(mails("Ann"), say("x")), Post().tools, saver=saver)
    await talk.send("write to Ann")
    [question] = await talk.questions()
    assert isinstance(question.response_schema, dict)
    assert set(question.response_schema["discriminator"]["mapping"]) == set(DECISIONS)


async def test_tools_without_a_rule_run_at_once(saver: DurableSaver) -> None:
    post = Post()
    talk = Conversation(ASK, model(call("look"), say("done")), post.tools, saver=saver)
    assert spoken(await talk.send("look"))[-1] == ("ai", "done")
    assert post.sent == ["looked"]
