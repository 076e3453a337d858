import { expect, test } from "vitest";
import type { Agent, System } from "../../../server/types";
import { parametersOf, wantedBy } from "./wanted";

const text = { type: "string" };
const object = (properties: object, required: string[] = []) => ({ type: "object", properties, required });

function system(agent: Partial<Agent>): System {
  const own = { id: "desk", role: "orchestrator", kind: "graph", description: "", ...agent };
  return { id: "desk", orchestrator: "desk", agents: [own] } as unknown as System;
}

const labels = (agent: Partial<Agent>) => {
  const { forms } = wantedBy(system(agent));
  return Object.fromEntries(
    Object.entries(forms).map(([part, { shape }]) => [
      part,
      shape.kind === "object" ? shape.fields.map(({ name }) => name) : shape.kind,
    ]),
  );
};

test("agents, and systems that are not known yet, take a text", () => {
  for (const one of [undefined, system({ kind: "agent" })])
    expect(wantedBy(one)).toMatchObject({ takesText: true, forms: {}, shown: [] });
});

test("a graph that takes only a message keeps the plain input box", () => {
  const chat = { input_schema: object({ messages: { type: "array" } }), takes_text: true, text_key: "messages" };
  expect(wantedBy(system(chat))).toMatchObject({ takesText: true, shown: [] });
  expect(Object.keys(labels(chat))).toEqual(["config"]);
  expect(Object.keys(labels({ input_schema: text, takes_text: true }))).toEqual(["config"]);
});

test("a graph that takes a text and other keys offers them below the text, required ones at once", () => {
  const both = { takes_text: true, text_key: "topic" };
  const optional = { ...both, input_schema: object({ topic: text, depth: { type: "integer" } }) };
  expect(labels(optional).input).toEqual(["depth"]);
  expect(wantedBy(system(optional))).toMatchObject({ takesText: true, needsText: false, shown: [] });
  const required = { ...both, input_schema: object({ topic: text, depth: { type: "integer" } }, ["topic", "depth"]) };
  expect(wantedBy(system(required))).toMatchObject({ takesText: true, needsText: true, shown: ["input"] });
});

test("a graph without a place for a text has a form in place of the input box", () => {
  const pair = { takes_text: false, input_schema: object({ left: text, right: text }) };
  expect(wantedBy(system(pair))).toMatchObject({ takesText: false, needsText: false, shown: ["input"] });
  expect(labels(pair).input).toEqual(["left", "right"]);
  expect(labels({ takes_text: false, input_schema: { type: "integer" } }).input).toBe("number");
});

test("the context has a form without the user of the session, shown at once if something in it is required", () => {
  const chat = { input_schema: object({ messages: { type: "array" } }), takes_text: true, text_key: "messages" };
  const context = object({ language: text, user_id: text }, ["language", "user_id"]);
  expect(labels({ ...chat, context_schema: context }).context).toEqual(["language"]);
  expect(wantedBy(system({ ...chat, context_schema: context })).shown).toEqual(["context"]);
  const user = object({ user_id: text }, ["user_id"]);
  expect(Object.keys(labels({ ...chat, context_schema: user }))).toEqual(["config"]);
});

test("a graph that takes any keys, or whose schema is not known, has a field for JSON", () => {
  const open = { ...object({ messages: {} }), additionalProperties: true };
  expect(labels({ takes_text: true, text_key: "messages", input_schema: open }).input).toBe("json");
  expect(labels({}).input).toBe("json");
  expect(wantedBy(system({})).shown).toEqual([]);
});

test("what the system has a value for may be left out, and is named", () => {
  const agent = {
    takes_text: true,
    text_key: "topic",
    input_schema: object({ topic: text, depth: { type: "integer", default: 1 } }, ["topic", "depth"]),
    context_schema: object({ language: { ...text, description: "of the answer" }, style: text }, ["language", "style"]),
    input: { depth: 3 },
    context: { language: "German" },
    config: { configurable: { style: "short" } },
  };
  const { forms, shown } = wantedBy(system(agent));
  expect(shown).toEqual([]);
  const noted = [forms.input, forms.context].flatMap((form) =>
    form?.shape.kind === "object" ? form.shape.fields : [],
  );
  expect(noted.map(({ name, hint, isNeeded, initial }) => [name, hint, isNeeded, initial])).toEqual([
    ["depth", "= 3", false, undefined],
    ["language", "of the answer (= German)", false, undefined],
    ["style", "= short", false, undefined],
  ]);
});

test("parts into which nothing was typed are not sent", () => {
  expect(parametersOf({ input: {}, context: {}, config: {} }, true)).toEqual({});
  expect(parametersOf({ input: { a: 1 }, context: { b: 2 }, config: {} }, true)).toEqual({
    input: { a: 1 },
    context: { b: 2 },
  });
  expect(parametersOf({ input: {}, context: undefined }, false)).toEqual({ input: {} });
  expect(parametersOf({ input: false, config: { recursion_limit: 5 } }, true)).toEqual({
    input: false,
    config: { recursion_limit: 5 },
  });
});
