"""The five steps from a description to a finished to-do list, over HTTP, as a front end takes them."""

import httpx2
import pytest

from tests.runs.talking import answer, begin, rest_of_run, send

SYSTEM = """
version: 1
system: {name: service-desk}
agents:
- id: orchestrator
  role: orchestrator
  mission: Make a repository, then say so.
  model:
    provider: scripted
    script:
    - when: billing-service
      steps:
      - say: "I plan. "
        call: plan_tasks
        args: {tasks: [{title: Choose}, {title: Create, depends_on: ["#1"]}]}
      - {say: "I must know more. ", call: ask_user, args: {question: Which visibility and language?}}
      - call: update_tasks
        args: {changes: [{id: t1, version: 1, status: completed}]}
      - {say: "Understood."}
  tools: {allow: [plan_tasks, update_tasks, ask_user]}
"""


@pytest.mark.requirement("004.lifecycle.whole-flow")
async def test_register_begin_send_answer_and_fetch_the_list(client: httpx2.AsyncClient) -> None:
    made = await client.post("/agent-systems", content=SYSTEM, headers={"Content-Type": "application/yaml"})
    assert (made.status_code, made.json()["id"], made.json()["version"]) == (201, "service-desk", 1)
    sid = await begin(client, "service-desk")
    accepted = await send(client, sid, "Erzeuge ein Service 'billing-service' und deploye auf staging")
    asked = await rest_of_run(client, sid, accepted["after"])
    assert asked[-1]["payload"]["status"] == "awaiting_user"
    accepted = await answer(client, sid, text="Repo soll private sein; Programmiersprache Go")
    events = await rest_of_run(client, sid, accepted["after"])
    assert events[-1]["payload"] == {**events[-1]["payload"], "status": "completed", "result": "Understood."}
    listed = await client.get(f"/sessions/{sid}/artifacts/todolist.md")
    assert listed.headers["content-type"].startswith("text/markdown")
    assert "- [x] **t1** Choose" in listed.text and "- [ ] **t2** Create" in listed.text
    state = (await client.get(f"/sessions/{sid}/state")).json()
    assert (state["status"], state["awaiting_user_input"], len(state["tasks"])) == ("completed", False, 2)
