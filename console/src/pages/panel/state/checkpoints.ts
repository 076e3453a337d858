import type { CheckpointInfo } from "../../../server/types";

/** The checkpoint that was the latest at a position of the log; undefined if none is known. */
export function checkpointAt(checkpoints: readonly CheckpointInfo[], position: number): CheckpointInfo | undefined {
  return checkpoints.find((one) => one.position !== null && one.position <= position);
}

/** The keys of a state with their values; a state without keys has one, without a name. */
export function entriesOfState(values: unknown): readonly [key: string, value: unknown][] {
  const isKeyed = typeof values === "object" && values !== null && !Array.isArray(values);
  return isKeyed ? Object.entries(values) : values === undefined || values === null ? [] : [["", values]];
}
