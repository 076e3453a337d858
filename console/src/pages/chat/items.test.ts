import { readFileSync } from "node:fs";
import { EMPTY, type Envelope, reduce, type Session } from "@stellwerk/client";
import { expect, test } from "vitest";
import { type Item, itemsOf, queuedIn } from "./items";

const RUNS = new URL("../../../../tests/golden/runs/", import.meta.url);

function goldenRun(name: string): Envelope[] {
  const lines = readFileSync(new URL(`${name}.jsonl`, RUNS), "utf8")
    .trim()
    .split("\n");
  return lines.map((line, index) => ({ ...JSON.parse(line), position: index + 1 }));
}

const folded = (name: string): Session => goldenRun(name).reduce(reduce, EMPTY);
const brief = (item: Item): string => (item.kind === "message" ? item.entry.role : item.kind);

test("a question is placed where it was asked and contains its answer", () => {
  const items = itemsOf(folded("question-answered"));
  expect(items.map(brief)).toContain("question");
  expect(items.map(brief)).not.toContain("answer");
  const asked = items.find((item) => item.kind === "question");
  expect(asked?.kind === "question" && asked.question.answer?.text).toBe("yes");
});

test("a stopped or failed run has a note below its messages", () => {
  for (const name of ["stopped", "failing-run"]) {
    const last = itemsOf(folded(name)).at(-1);
    expect(last).toMatchObject({ kind: "end", isLast: true });
  }
});

test("only the last answer can be regenerated; a new session can continue from the end of any run", () => {
  const session = folded("plain-answer");
  const items = itemsOf(session);
  const said = items.flatMap((item) => (item.kind === "message" && item.entry.role === "assistant" ? [item] : []));
  expect(said.at(-1)).toMatchObject({ isLast: true, forkAt: session.runs.at(-1)?.endPosition });
});

test("a running run has one activity row, and keys are unique", () => {
  for (const name of ["nested-agents", "crashed-resumed", "two-questions", "stopped"]) {
    let session = EMPTY;
    for (const envelope of goldenRun(name)) {
      session = reduce(session, envelope);
      const keys = itemsOf(session).map(({ key }) => key);
      expect(new Set(keys).size).toBe(keys.length);
      const working = session.status === "running" && !session.awaitingUserInput;
      expect(keys.includes("working")).toBe(working);
    }
  }
});

test("a queued message comes after the current run, and then before its own answer", () => {
  const run = goldenRun("one-tool");
  const cut = run.findIndex(({ type }) => type === "tool_start");
  const user = run.find((one) => one.type === "message" && one.payload.role === "user");
  const start = run.find(({ type }) => type === "run_start");
  if (user?.type !== "message" || start?.type !== "run_start") throw new Error("there is no such run");
  const next = { ...user, run_id: undefined, payload: { ...user.payload, message_id: "next" } };
  const again = { ...start, call_id: "r2", run_id: "r2", payload: { ...start.payload, round: 2, message_id: "next" } };
  const log = [...run.slice(0, cut + 1), next, ...run.slice(cut + 1), again].map(
    (one, index) => ({ ...one, position: index + 1 }) as Envelope,
  );
  const busy = log.slice(0, cut + 2).reduce(reduce, EMPTY);
  const waits = itemsOf(busy);
  expect(queuedIn(busy)).toEqual([{ text: busy.entries.at(-1)?.text, files: [] }]);
  expect(waits.slice(-2)).toMatchObject([{ kind: "working" }, { kind: "message", isQueued: true }]);
  expect(itemsOf(log.reduce(reduce, EMPTY)).slice(-3).map(brief)).toEqual(["assistant", "user", "working"]);
});

test("a warning about the user's message is placed between the message and the answer", () => {
  const [start, ...rest] = goldenRun("plain-answer");
  const message = rest.findIndex(({ type }) => type === "message");
  const warning = {
    ...start,
    type: "warning",
    payload: { code: "images_not_shown", message: "The model is not shown red.png" },
  } as Envelope;
  const other = { ...warning, payload: { code: "unknown_event", message: "what?" } } as Envelope;
  const log = [start, ...rest.slice(0, message + 1), warning, other, ...rest.slice(message + 1)] as Envelope[];
  const session = log.map((envelope, index) => ({ ...envelope, position: index + 1 })).reduce(reduce, EMPTY);
  expect(itemsOf(session).map(brief)).toEqual(["user", "warning", "assistant"]);
});
