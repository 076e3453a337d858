import { Problem, type Withdrawn } from "@stellwerk/client";
import { stopRun } from "./conversation";
import { requestJson } from "./request";
import { pause } from "./timeouts";
import type { Session } from "./types";

const standing = (sid: string) => requestJson<Session>(`/sessions/${encodeURIComponent(sid)}`);

export interface Outcome {
  /** False if the round had already ended. */
  readonly isStopped: boolean;
  /** The withdrawn messages; unknown if the response was lost. */
  readonly withdrawn?: readonly Withdrawn[];
}

/**
 * Stops a round and retries across broken connections for as long as that round runs. A later round is never stopped by
 * it.
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
