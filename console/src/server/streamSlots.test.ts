// @vitest-environment happy-dom
import type { Connection } from "@stellwerk/client";
import { afterEach, expect, test, vi } from "vitest";
import { followInTurn } from "./streamSlots";

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a polling window notices a hanging server and stops when aborted", async () => {
  vi.useFakeTimers();
  const allTaken = { request: (_name: string, _wishes: object, given: (lock: null) => unknown) => given(null) };
  vi.stubGlobal("navigator", { locks: allTaken });
  const asked: AbortSignal[] = [];
  const never = (_after: number, signal: AbortSignal) => {
    asked.push(signal);
    return new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  const states: Connection[] = [];
  const leaving = new AbortController();
  const options = { signal: leaving.signal, onConnection: (connection: Connection) => states.push(connection) };
  const envelopes = followInTurn(() => expect.unreachable(), never, options);
  const first = envelopes.next();
  await vi.advanceTimersByTimeAsync(25_000);
  expect([states, asked.map(({ aborted }) => aborted)]).toEqual([["waiting"], [true, false]]);
  leaving.abort();
  expect((await first).done).toBe(true);
  expect(states).toEqual(["waiting"]);
});
