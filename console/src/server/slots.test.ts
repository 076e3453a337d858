// @vitest-environment happy-dom
import type { Connection } from "@stellwerk/client";
import { afterEach, expect, test, vi } from "vitest";
import { followInTurn } from "./slots";

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a window without a stream notices a server that stands still, and lets go when it is told to", async () => {
  vi.useFakeTimers();
  const allTaken = { request: (_name: string, _wishes: object, given: (lock: null) => unknown) => given(null) };
  vi.stubGlobal("navigator", { locks: allTaken });
  const asked: AbortSignal[] = [];
  const never = (_after: number, signal: AbortSignal) => {
    asked.push(signal);
    return new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  const told: Connection[] = [];
  const leaving = new AbortController();
  const wishes = { signal: leaving.signal, onConnection: (connection: Connection) => told.push(connection) };
  const envelopes = followInTurn(() => expect.unreachable(), never, wishes);
  const first = envelopes.next();
  await vi.advanceTimersByTimeAsync(25_000);
  expect([told, asked.map(({ aborted }) => aborted)]).toEqual([["waiting"], [true, false]]);
  leaving.abort();
  expect((await first).done).toBe(true);
  expect(told).toEqual(["waiting"]);
});
