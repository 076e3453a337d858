import { Problem } from "@stellwerk/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { unreachable } from "./ask";
import { stopRound } from "./stopping";
import type { Session } from "./types";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const WAITED = [{ message_id: "m", text: "and then this", documents: [] }];

/** What comes of a stop of round 2 while the line is broken, when the session stands so after it. */
async function stopped(later: Pick<Session, "round" | "status">) {
  const stop = vi.fn().mockRejectedValueOnce(unreachable()).mockResolvedValue({ withdrawn: WAITED });
  const look = vi
    .fn()
    .mockRejectedValueOnce(new Problem(503, { code: "storage_gone" }))
    .mockResolvedValue(later);
  const told = stopRound("sid", 2, stop, look);
  await vi.runAllTimersAsync();
  return { ...(await told), sent: stop.mock.calls.length };
}

test("a stop that could not be sent is sent when the line is back", async () => {
  expect(await stopped({ round: 2, status: "running" })).toEqual({ isStopped: true, withdrawn: WAITED, sent: 2 });
});

test("a stop that came through without an answer is not sent again", async () => {
  expect(await stopped({ round: 2, status: "stopped" })).toEqual({ isStopped: true, sent: 1 });
});

test("a round that has ended meanwhile is not stopped, and neither is the next", async () => {
  expect(await stopped({ round: 2, status: "completed" })).toEqual({ isStopped: false, sent: 1 });
  expect(await stopped({ round: 3, status: "running" })).toEqual({ isStopped: false, sent: 1 });
});

test("a server that refuses a stop is not asked again", async () => {
  const stop = vi.fn().mockRejectedValue(new Problem(403, { code: "forbidden" }));
  await expect(stopRound("sid", 2, stop)).rejects.toThrow(Problem);
  expect(stop).toHaveBeenCalledOnce();
});
