import { Problem } from "@stellwerk/client";
import { ask } from "./ask";
import { stopRun } from "./conversation";
import { pause } from "./pause";
import type { Session } from "./types";

const standing = (sid: string) => ask<Session>(`/sessions/${encodeURIComponent(sid)}`);

/**
 * Stops a round, however often the line breaks, for as long as that round goes on: what waited may have begun since, and
 * nobody has asked to stop that. False if it was over before.
 */
export async function stopRound(sid: string, round: number, stop = stopRun, look = standing): Promise<boolean> {
  for (let count = 0; ; count += 1) {
    try {
      const now = count > 0 ? await look(sid) : null;
      if (now && now.round !== round) return false;
      if (now && now.status !== "running") return now.status === "stopped";
      await stop(sid);
      return true;
    } catch (error) {
      if (!(error instanceof Problem) || (error.status !== 0 && error.status < 502)) throw error;
      await pause(Math.min(500 * 2 ** count, 5_000));
    }
  }
}
