import { Problem, type Withdrawn } from "@stellwerk/client";
import { ask } from "./ask";
import { stopRun } from "./conversation";
import { pause } from "./pause";
import type { Session } from "./types";

const standing = (sid: string) => ask<Session>(`/sessions/${encodeURIComponent(sid)}`);

export interface Outcome {
  /** False if the round was over before. */
  readonly isStopped: boolean;
  /** The messages that waited and were given back; unknown if the answer was lost with the line. */
  readonly withdrawn?: readonly Withdrawn[];
}

/**
 * Stops a round, however often the line breaks, for as long as that round goes on: what waited may have begun since, and
 * nobody has asked to stop that.
 */
export async function stopRound(sid: string, round: number, stop = stopRun, look = standing): Promise<Outcome> {
  for (let count = 0; ; count += 1) {
    try {
      const now = count > 0 ? await look(sid) : null;
      if (now && now.round !== round) return { isStopped: false };
      if (now && now.status !== "running") return { isStopped: now.status === "stopped" };
      const { withdrawn = [] } = await stop(sid);
      return { isStopped: true, withdrawn };
    } catch (error) {
      if (!(error instanceof Problem) || (error.status !== 0 && error.status < 502)) throw error;
      await pause(Math.min(500 * 2 ** count, 5_000));
    }
  }
}
