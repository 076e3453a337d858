import { beforeAll, expect, test } from "vitest";
import {
  type AiMessage,
  Client,
  conversation,
  dispatch,
  EMPTY,
  openQuestions,
  Problem,
  reduce,
  type Session,
  streamControl,
  textOf,
} from "../src/index.js";
import { Server } from "./server.js";

const WORDS = Array.from({ length: 60 }, (_, index) => `word${index + 1}`).join(" ");
const SPEAKER = `
version: 1
system: {name: speaker}
agents:
  - id: speaker
    role: orchestrator
    system_prompt: You speak.
    tools: {allow: [get_weather]}
    model:
      provider: scripted
      pace: 0.04
      script:
        - steps:
            - {say: "First a look. ", call: get_weather, args: {city: Berlin}}
            - {say: "${WORDS}"}
`;

const server = new Server();
let client: Client;

beforeAll(async () => {
  await server.start();
  client = new Client({ url: server.url });
  return () => server[Symbol.asyncDispose]();
}, 300_000);

/** Follows the session until this holds. */
async function followed(sid: string, holds: (session: Session) => boolean, from = EMPTY): Promise<Session> {
  let session = from;
  for await (const envelope of client.follow(sid, { after: session.position })) {
    session = reduce(session, envelope);
    if (holds(session)) break;
  }
  return session;
}

test("a server that is killed in the middle of an answer, and started again, loses and doubles no word", async () => {
  await client.registerSystem(SPEAKER);
  const { id } = await client.createSession("speaker");
  await client.send(id, { text: "Speak." });

  let messages: readonly AiMessage[] = [{ id: "ai", content: "" }];
  const invoked = client.invokeAgent(
    { agent_system_id: "speaker", messages: [{ role: "user", content: "Speak." }] },
    {
      onEvent: (event) => {
        messages = dispatch(messages, "ai", event);
      },
    },
  );

  let killed: Promise<void> | undefined;
  const session = await followed(id, (now) => {
    const [draft] = now.drafts;
    if (draft && textOf(now, draft).includes("word10")) killed ??= server.kill().then(() => server.start());
    return now.status === "completed";
  });
  await killed;
  expect(killed).toBeDefined();
  expect(session.runs[0]).toMatchObject({ attempt: 2, status: "completed" });
  const transcript = await client.transcript(id);
  expect(conversation(session).map((entry) => textOf(session, entry))).toEqual(
    transcript.messages.map((one) => one.text),
  );
  expect(transcript.messages.at(-1)?.text).toBe(WORDS);

  const sid = await invoked;
  const [message] = messages;
  expect(message?.content).toBe(WORDS);
  expect(message?.toolEvents?.map((event) => [event.type, event.payload.toolName])).toEqual([
    ["toolcall_request", "get_weather"],
    ["toolcall_result", "get_weather"],
  ]);
  expect((await client.session(sid)).status).toBe("completed");
});

test("what a front end of text alone needs is a switch on the type", async () => {
  let text = "";
  await client.invokeAgent(
    { messages: [{ role: "user", content: "table" }] },
    {
      onEvent: (event) => {
        text += streamControl(event).appendText ?? "";
      },
    },
  );
  expect(text).toContain("A table keeps its columns");
  expect(text).not.toContain("make_table");
});

test("ask, answer, stop, fork, regenerate, files, and what is refused", async () => {
  const { id } = await client.createSession("demo");
  const key = "once";
  const first = await client.send(id, { text: "ask" }, key);
  expect(await client.send(id, { text: "ask" }, key)).toEqual(first);
  let session = await followed(id, (now) => now.awaitingUserInput);
  expect(openQuestions(session)).toMatchObject([{ question: "Which colour do you like?", state: "open" }]);
  await client.answer(id, { text: "blue" });
  session = await followed(id, (now) => now.status === "completed", session);
  expect(session.entries.at(-1)?.text).toBe("You answered: blue");
  expect(session.position).toBe((await client.events(id, { after: session.position - 1 })).next);

  await client.regenerate(id);
  const again = await followed(id, (now) => now.round === 3 && now.awaitingUserInput, session);
  expect(again.runs.some((run) => run.replacedBy === again.runId)).toBe(true);
  expect((await client.stop(id, "enough")).status).toBe("stopped");
  const fork = await client.fork(id, session.position);
  expect((await client.transcript(fork.id)).messages.at(-1)?.text).toBe("You answered: blue");

  const file = await client.upload(new Blob(["a,b\n1,2\n"], { type: "text/csv" }), "small.csv");
  expect(await (await client.download(file.href)).text()).toBe("a,b\n1,2\n");
  await client.deleteFile(file.id);

  expect((await client.sessions()).sessions.map((one) => one.id)).toContain(fork.id);
  await client.deleteSession(fork.id);
  await expect(client.session(fork.id)).rejects.toBeInstanceOf(Problem);
  await expect(followed(fork.id, () => false)).rejects.toMatchObject({ status: 404, code: "unknown_session" });
  await expect(client.checkSystem("version: 1\nsystem: {}")).rejects.toMatchObject({ status: 422 });
  expect((await client.tools()).map((tool) => tool.name)).toContain("get_weather");
  expect((await client.systems()).agent_systems.map((one) => one.id)).toContain("demo");
  expect((await client.system("demo")).orchestrator).toBe("assistant");
  expect((await client.state(id)).status).toBe("stopped");
  expect((await client.artifacts(id))[0]).toMatchObject({ kind: "todolist" });
});

test("a workflow is started, followed by polling, and deleted", async () => {
  const { id } = await client.workflows.start({ prompt: "weather", agentSystemId: "demo" });
  await followed(id, (now) => now.status === "completed");
  expect(await client.workflows.status(id)).toMatchObject({ status: "completed" });
  const whole = await client.workflows.get(id);
  expect(await client.workflows.messages(id)).toEqual(whole.messages);
  expect(await client.workflows.logs(id, whole.logs.at(-2)?.id)).toEqual(whole.logs.slice(-1));
  expect((await client.workflows.list()).map((one) => one.id)).toContain(id);
  expect(await client.workflows.stop(id)).toMatchObject({ id });
  await client.workflows.delete(id);
  await expect(client.workflows.status(id)).rejects.toMatchObject({ status: 404 });
});
