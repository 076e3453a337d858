"""What a run looks like: whole screens, of real agents."""

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from msgspec import structs

from stellwerk.agents.graphs.registry import GraphEntry, Graphs
from stellwerk.envelope.model import Envelope, Error, LlmToken, RunEnd
from stellwerk.envelope.payloads import Problem, RunEnded, Token, ToolEnded, Usage
from stellwerk.spec.model import CompleteAgent
from tests import samples
from tests.agents.agent_runs import agent, call, calls, say
from tests.cli.conversations import Chat, RecordedView, built, demo, over


async def test_a_tool_its_arguments_its_table_and_the_usage_at_the_end() -> None:
    chat = Chat(await demo())
    assert await chat.say("weather") == "completed"
    assert chat.view.text() == (
        "I will look at the weather.  0.0 s\n"
        "→ get_weather  city: Berlin\n"
        "✓ get_weather  0.0 s  1 row\n"
        "  city     sky     degrees\n"
        "  ────────────────────────\n"
        "  Berlin   sunny        21\n"
        "It is sunny. This is what the tool said:\n"
        "\n"
        "| city | sky | degrees |\n"
        "|---|---|---|\n"
        "| Berlin | sunny | 21 |\n"
        "completed in 0.0 s · 2 model calls · 1 tool call · scripted 35 → 34 tokens\n"
    )


@pytest.mark.parametrize("word", ["weather", "ask", "delegate"])
async def test_wherever_a_reader_begins_no_duration_is_longer_than_the_run(word: str) -> None:
    chat = Chat(await demo(), typed=["blue"])
    await chat.say(word)
    log = chat.view.envelopes
    whole = chat.view.written().splitlines()[-1]
    assert whole.startswith("completed in ") and "model call" in whole
    for first in range(len(log)):
        view = RecordedView()
        for envelope in log[first:]:
            view.feed(envelope)
        last = view.written().splitlines()[-1]
        assert " min " not in view.written(), f"from the envelope {first} on: {last}"
        assert last == whole if first == 0 else " in " not in last and "call" not in last


async def test_a_call_that_is_stopped_is_shown_to_a_reader_that_did_not_see_it_begin() -> None:
    view = RecordedView()
    ended = ToolEnded(tool_name="wait", tool_call_id="c1", status="abandoned", synthesized=True)
    view.feed(structs.replace(samples.tool_end(), payload=ended))
    assert view.written() == "■ wait  stopped\n"


async def test_a_checklist_is_shown_once_and_then_what_changes_in_it() -> None:
    chat = Chat(await demo())
    await chat.say("plan")
    assert chat.view.text().startswith(
        "First a list of what there is to do.  0.0 s\n"
        "☐ t1 Look at the weather\n"
        "☐ t2 Tell what it is like\n"
        "▸ t1 Look at the weather\n"
        "→ get_weather  city: Berlin\n"
        "✓ get_weather  0.0 s  1 row\n"
        "  city     sky     degrees\n"
        "  ────────────────────────\n"
        "  Berlin   sunny        21\n"
        "☑ t1 Look at the weather\n"
        "☑ t2 Tell what it is like\n"
        "It is sunny, and the list is done:\n"
    )


async def test_what_blocks_is_shown_and_that_it_is_settled() -> None:
    stuck, settled = call("report_obstacles", blocker="no access"), call("report_obstacles", settled=["no access"])
    chat = Chat(await built(agent("clerk", stuck, settled, say("Done."), tools=["report_obstacles"])))
    await chat.say("go")
    assert chat.view.text().startswith("⚠ no access\n☑ no access\nDone.")


async def test_a_file_is_named() -> None:
    chat = Chat(await demo())
    await chat.say("file")
    assert "✓ write_report  0.0 s  report.md  text/markdown, 25 bytes\n" in chat.view.text()


async def test_where_the_answer_goes_elsewhere_only_the_steps_before_it_are_shown() -> None:
    chat = Chat(await demo(), view=RecordedView(answer=False))
    await chat.say("file")
    assert chat.view.text() == (
        "I write it down.\n"
        "→ write_report  title: Report, text: You said: file\n"
        "✓ write_report  0.0 s  report.md  text/markdown, 25 bytes\n"
        "completed in 0.0 s · 2 model calls · 1 tool call · scripted 25 → 31 tokens\n"
    )


@pytest.mark.requirement("002.adapter.nested-calls-can-be-rendered")
async def test_agents_in_agents_are_indented_and_say_who_they_are() -> None:
    clerk = agent("clerk", call("count_words", text="one two"), say("Counted."), tools=["count_words"])
    head = over(agent("head", call("clerk", task="count"), say("My clerk is done.")), clerk)
    boss = over(agent("boss", call("head", task="count the words"), say("They say: {result}")), head)
    chat = Chat(await built(boss))
    await chat.say("go")
    assert chat.view.text() == (
        "→ head  task: count the words\n"
        "  head │ → clerk  task: count\n"
        "    clerk │ → count_words  text: one two\n"
        '          │ ✓ count_words  0.0 s  {"words":2,"lines":1,"characters":7}\n'
        "          │ Counted.  0.0 s\n"
        "  head │ ✓ clerk  0.0 s\n"
        "       │ My clerk is done.  0.0 s\n"
        "✓ head  0.0 s\n"
        "They say: My clerk is done.\n"
        "completed in 0.0 s · 6 model calls · 1 tool call · scripted 16 → 24 tokens\n"
    )


async def test_one_agent_called_three_times_at_once_is_numbered() -> None:
    clerk = agent("clerk", say("Done."))
    tasks = [("clerk", {"task": name}) for name in ("a", "b", "c")]
    boss = over(agent("boss", calls(*tasks), say("All done.")), clerk)
    chat = Chat(await built(boss))
    await chat.say("go")
    rows = chat.view.text().splitlines()
    for name in ("clerk", "clerk 2", "clerk 3"):
        assert f"  {name} │ Done.  0.0 s" in rows
        assert f"✓ {name}  0.0 s" in rows


async def test_a_failed_tool_is_shown_once_and_the_run_continues() -> None:
    chat = Chat(await built(agent("a", call("calculate", expression="1/0"), say("No."), tools=["calculate"])))
    assert await chat.say("go") == "completed"
    assert [row for row in chat.view.text().splitlines() if "✗" in row] == [
        "✗ calculate  0.0 s  it cannot be worked out: division by zero"
    ]


async def test_a_users_graph_shows_its_steps_and_a_message_without_a_model() -> None:
    class State(MessagesState):
        found: int

    graph = StateGraph(State)
    graph.add_node("look", lambda state: {"found": 42})
    graph.add_node("tell", lambda state: {"messages": [AIMessage("It is 42.")]})
    graph.add_edge(START, "look")
    graph.add_edge("look", "tell")
    graph.add_edge("tell", END)
    entry = GraphEntry("mine", graph.compile(), "mine.py:graph")
    chat = Chat(await built(CompleteAgent(name="mine", kind="graph", graph="mine"), graphs=Graphs([entry])))
    await chat.say("go")
    assert chat.view.text() == "· look  found: 42\n· tell\nIt is 42.\ncompleted in 0.0 s\n"


def test_what_a_model_thinks_is_a_text_of_its_own_before_what_it_says() -> None:
    view = RecordedView()
    thought = LlmToken(**samples.place("llm", 2), payload=Token(text="Hm, hello?", kind="reasoning"))
    log: list[Envelope] = [
        samples.run_start(),
        samples.llm_start(),
        thought,
        samples.token("Hello.", 3),
        samples.llm_end(4),
    ]
    for envelope in [*log, samples.run_end()]:
        view.feed(envelope)
    assert view.text() == "Hm, hello?\nHello.\ncompleted in 0.0 s · 1 model call\n"


def test_a_model_without_token_counts_is_not_in_the_summary() -> None:
    view = RecordedView()
    model = "some-provider/a-model-20261116"
    used = [Usage(model=model, input_tokens=35, output_tokens=34), Usage(model="free")]
    log: list[Envelope] = [samples.run_start(), samples.llm_start(), samples.llm_end(2)]
    last = RunEnd(**samples.place("run", 2, parent=None), payload=RunEnded(status="completed", usage=used))
    for envelope in [*log, last]:
        view.feed(envelope)
    assert view.text() == f"completed in 0.0 s · 1 model call · {model} 35 → 34 tokens\n"


def test_a_failed_call_of_a_model_is_shown() -> None:
    view = RecordedView()
    failed = Error(**samples.place("llm", 2), payload=Problem(code="call_failed", message="m raised Busy", name="m"))
    log: list[Envelope] = [samples.run_start(), failed, samples.llm_start(), samples.llm_end(4)]
    for envelope in log:
        view.feed(envelope)
    assert view.text() == "✗ m raised Busy\n"


def test_the_time_in_which_the_user_considers_a_question_is_not_counted() -> None:
    view = RecordedView()
    asked, answered = samples.run_end(2, "awaiting_user"), samples.run_start("run2")
    log: list[Envelope] = [
        samples.run_start(),
        samples.tool_start(),
        asked,
        structs.replace(answered, ts=100.0, payload=structs.replace(answered.payload, trigger="answer")),
        structs.replace(samples.tool_end(), ts=102.0),
    ]
    for envelope in log:
        view.feed(envelope)
    assert "✓ look  2.0 s" in view.written()
