import { Problem } from "@stellwerk/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { unreachable } from "./request";
import { stopRound } from "./stopRound";
import type { Session } from "./types";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const WAITED = [{ message_id: "m", text: "and then this", documents: [] }];

/** The result of stopping round 2 over a broken connection, for this state of the session. */
async function stopped(later: Pick<Session, "round" | "status">) {
  const stop = vi.fn().mockRejectedValueOnce(unreachable()).mockResolvedValue({ withdrawn: WAITED });
  const look = vi
    .fn()
    .mockRejectedValueOnce(new Problem(503, { code: "storage_gone" }))
    .mockResolvedValue(later);
  const result = stopRound("sid", 2, stop, look);
  await vi.runAllTimersAsync();
  return { ...(await result), sent: stop.mock.calls.length };
}

test("a stop that could not be sent is sent when the connection is back", async () => {
  expect(await stopped({ round: 2, status: "running" })).toEqual({ isStopped: true, withdrawn: WAITED, sent: 2 });
});

test("a stop whose response was lost is not sent again", async () => {
  expect(await stopped({ round: 2, status: "stopped" })).toEqual({ isStopped: true, sent: 1 });
});

test("a round that ended in the meantime is not stopped, and neither is the next", async () => {
  expect(await stopped({ round: 2, status: "completed" })).toEqual({ isStopped: false, sent: 1 });
  expect(await stopped({ round: 3, status: "running" })).toEqual({ isStopped: false, sent: 1 });
});

test("a rejected stop is not retried", async () => {
  const stop = vi.fn().mockRejectedValue(new Problem(403, { code: "forbidden" }));
  await expect(stopRound("sid", 2, stop)).rejects.toThrow(Problem);
  expect(stop).toHaveBeenCalledOnce();
});
