import { type NewMessage, Problem } from "@stellwerk/client";
import { expect, test, vi } from "vitest";
import { unreachable } from "../server/request";
import { drain, drop, forgive, put } from "./outbox";

const said = (text: string) => ({ text, files: [] });

function server(...answers: (number | Problem)[]) {
  const got: [string | undefined, string][] = [];
  const send = async (_: string, message: NewMessage, key: string) => {
    got.push([message.text, key]);
    const answer = answers.shift() ?? 99;
    if (typeof answer !== "number") throw answer;
    return { position: answer, status: "accepted" as const };
  };
  return { got, send: send as Parameters<typeof drain>[1] };
}

test("messages sent in quick succession arrive in order, each once", async () => {
  for (const text of ["one", "two", "three"]) put("quick", said(text), "enqueue");
  const { got, send } = server(1, 2, 3);
  await Promise.all([drain("quick", send), drain("quick", send)]);
  expect(got.map(([text]) => text)).toEqual(["one", "two", "three"]);
  await drain("quick", send);
  expect(got).toHaveLength(3);
});

test("a broken connection is retried with the same key", async () => {
  vi.useFakeTimers();
  put("lost", said("hello"), "enqueue");
  const { got, send } = server(unreachable(), new Problem(503, { code: "storage_gone" }), 4);
  const drained = drain("lost", send);
  await vi.runAllTimersAsync();
  await drained;
  vi.useRealTimers();
  expect(got).toHaveLength(3);
  expect(new Set(got.map(([, key]) => key)).size).toBe(1);
});

test("a rejected message blocks later ones until it is sent again or taken back", async () => {
  for (const text of ["bad", "good"]) put("refused", said(text), "enqueue");
  const { got, send } = server(
    new Problem(409, { code: "session_busy", detail: "no" }),
    new Problem(409, { code: "session_busy", detail: "no" }),
    5,
  );
  await drain("refused", send);
  expect(got.map(([text]) => text)).toEqual(["bad"]);
  forgive("refused");
  await drain("refused", send);
  drop("refused", ({ refusal }) => refusal !== undefined);
  await drain("refused", send);
  expect(got.map(([text]) => text)).toEqual(["bad", "bad", "good"]);
});

test("the parameters of a message are sent with it, and a rejection names its field", async () => {
  const parameters = { input: { days: 0 }, context: { language: "German" } };
  put("graph", { text: "", files: [], parameters }, "enqueue");
  const sent: NewMessage[] = [];
  const refuse = async (_: string, message: NewMessage) => {
    sent.push(message);
    throw new Problem(422, { code: "invalid_request", detail: "input.days: too small", field: "input.days" });
  };
  await drain("graph", refuse as Parameters<typeof drain>[1]);
  expect(sent).toEqual([{ text: "", documents: [], if_busy: "enqueue", ...parameters }]);
  const fields: unknown[] = [];
  drop("graph", ({ refusal }) => fields.push(refusal?.field) > 0);
  expect(fields).toContain("input.days");
});
