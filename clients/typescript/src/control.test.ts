import { describe, expect, test } from "vitest";
import { streamControl } from "./control.js";
import { type AiMessage, dispatch } from "./dispatch.js";
import { lines, NAMES } from "./testing/golden.js";

const QUESTION: AiMessage = { id: "u", content: "Go." };

function messageFrom(folder: string, name: string): AiMessage {
  const start: readonly AiMessage[] = [QUESTION, { id: "ai", content: "" }];
  const [question, message] = lines(`${folder}/${name}.jsonl`).reduce(
    (messages, line) => dispatch(messages, "ai", JSON.parse(line)),
    start,
  );
  expect(question).toBe(QUESTION);
  return message as AiMessage;
}

describe.each(NAMES)("the golden run %s", (name) => {
  const events = messageFrom("events", name);

  test("gives the same message for events, chunks, and chunks with a preview", () => {
    const bare = (message: AiMessage) => ({
      ...message,
      toolEvents: message.toolEvents?.map((event) => ({ ...event, payload: { ...event.payload, argsPreview: null } })),
    });
    expect(bare(messageFrom("chunks", name))).toEqual(bare(events));
    expect(bare(messageFrom("chunks-live", name))).toEqual(bare(events));
  });

  test("contains the whole text and no tool output", () => {
    const parsed = lines(`events/${name}.jsonl`).map((line) => JSON.parse(line));
    const words = parsed.filter((event) => event.type === "text_message").map((event) => event.payload.text);
    expect(events.content).toBe(words.join(""));
    const tools = parsed.filter((event) => event.type.startsWith("toolcall_"));
    expect(events.toolEvents ?? []).toEqual(tools.map(({ type, payload }) => ({ type, payload })));
  });
});

test("a string is parsed as a line of JSON, else taken as text", () => {
  const line = '{"type":"text_message","payload":{"text":"Hi"},"id":"1.0","ts":1,"agent_name":"a"}';
  expect(streamControl(line)).toEqual({ appendText: "Hi" });
  expect(streamControl("{not JSON")).toEqual({ appendText: "{not JSON" });
  for (const text of ["42", "null", '{"type":"object"}', '{"type":"text_message","payload":null}'])
    expect(streamControl(text)).toEqual({ appendText: text });
});

test("a question carries the id needed to answer it", () => {
  const question = lines("events/question-answered.jsonl")
    .map(streamControl)
    .find((control) => control.question);
  expect(question).toMatchObject({ appendText: "May I?", question: { ask_id: "id-21", kind: "question" } });
});

test("unknown types are ignored", () => {
  expect(streamControl('{"type":"tomorrow","payload":{}}')).toEqual({});
  expect(streamControl('{"type":"tomorrow","level":"outer_agent","data":"x"}')).toEqual({});
});
