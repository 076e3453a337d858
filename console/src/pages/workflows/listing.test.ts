import type { WorkflowHead } from "@stellwerk/client";
import { expect, test } from "vitest";
import { listing, nameOf, pause } from "./listing";

const head = (id: string, status: WorkflowHead["status"] = "completed"): WorkflowHead => ({
  ...{ id, status, mandateId: 1, userId: 0, name: id, startedAt: "", lastActivity: "", currentRound: 1 },
  awaitingUserInput: false,
  failedTasks: 0,
});

test("an unchanged list stays the same object and keeps its time", () => {
  const first = listing([head("a"), head("b"), head("c")], 2, 1000);
  expect(first).toMatchObject({ more: true, changedAt: 1000, rows: [{ id: "a" }, { id: "b" }] });
  expect(listing([head("a"), head("b"), head("c")], 2, 9000, first)).toBe(first);
  expect(listing([head("a", "running"), head("b"), head("c")], 2, 9000, first).changedAt).toBe(9000);
});

test("polling slows down while nothing happens", () => {
  const still = listing([head("a")], 50, 0);
  expect([1_000, 20_000, 60_000, 600_000].map((now) => pause(still, 0, now))).toEqual([2_000, 5_000, 15_000, 30_000]);
  expect(pause(listing([head("a", "running")], 50, 0), 0, 600_000)).toBe(10_000);
});

test("polling slows down while the server is unreachable", () => {
  expect([0, 1, 3, 9].map((failures) => pause(undefined, failures, 0))).toEqual([2_000, 4_000, 16_000, 30_000]);
});

test("a truncated name ends with an ellipsis", () => {
  expect(nameOf("Write a report")).toBe("Write a report");
  expect(nameOf(`${"Write ".repeat(10)}a report`)).toBe(`${"Write ".repeat(10).trimEnd()}…`);
});
