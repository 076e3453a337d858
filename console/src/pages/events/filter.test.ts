import { readFileSync } from "node:fs";
import type { Envelope } from "@stellwerk/client";
import { expect, test } from "vitest";
import { filterOf, matches, rowOf, Sieve, searchOf } from "./filter";
import { summaryOf } from "./summary";

const file = new URL("../../../../tests/golden/runs/nested-agents.jsonl", import.meta.url);
const log = readFileSync(file, "utf8")
  .split("\n")
  .filter(Boolean)
  .map((line, index) => ({ ...JSON.parse(line), position: index + 1 }) as Envelope);

test("a URL holds the filter, and invalid values are ignored", () => {
  expect(searchOf({ at: "12", type: "log", q: 7, profile: "debug" })).toMatchObject({
    at: 12,
    q: "7",
    profile: "debug",
  });
  expect(searchOf({ at: "x", profile: "root", q: "" })).toEqual(searchOf({}));
  expect(searchOf({ at: -1 }).at).toBeUndefined();
});

test("types, agent and text are combined", () => {
  const types = filterOf({ type: "tool_start,tool_end" });
  expect(new Set(log.filter((one) => matches(one, types)).map((one) => one.type))).toEqual(types.types);
  const agent = log.find((one) => one.type === "tool_start")?.agent ?? "";
  const both = log.filter((one) => matches(one, filterOf({ type: "tool_start", agent, q: " TOOL_NAME" })));
  expect(both.length).toBeGreaterThan(0);
  expect(both.every((one) => one.type === "tool_start" && one.agent === agent)).toBe(true);
  expect(log.filter((one) => matches(one, filterOf({ q: "no such words" })))).toEqual([]);
  expect(log.filter((one) => matches(one, filterOf({})))).toEqual(log);
});

test("a filter applied while the log grows gives the same result", () => {
  const filter = filterOf({ type: "tool_start,tool_end" });
  const sieve = new Sieve(filter);
  for (let length = 0; length <= log.length; length += 3) sieve.shake(log.slice(0, length));
  expect(sieve.shake(log)).toEqual(log.filter((one) => matches(one, filter)));
});

test("a position is found in a list with gaps", () => {
  const rows = log.filter((one) => one.position % 3 === 0);
  expect(rowOf(rows, 6)).toEqual({ row: 1, there: true });
  expect(rowOf(rows, 7)).toEqual({ row: 2, there: false });
  expect(rowOf([], 7)).toEqual({ row: 0, there: false });
});

test("every event has a one-line summary", () => {
  for (const envelope of log) expect(summaryOf(envelope)).not.toContain("\n");
  const unknown = { ...log[0], type: "from_the_future", payload: { a: 1 } } as unknown as Envelope;
  expect(summaryOf(unknown)).toBe("{a}");
  const long = { ...log[0], type: "log", payload: { message: "word \n".repeat(100_000) } } as Envelope;
  expect(summaryOf(long)).toMatch(/^(word ){60} …$/);
});
