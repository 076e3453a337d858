import type { Client, Envelope, FollowOptions } from "@stellwerk/client";
import { Problem } from "@stellwerk/client";
import { pause, within } from "./timeouts";

/**
 * A browser allows six connections per server for all windows together. Four windows may hold a stream, one holds the
 * session list, and one connection is left for requests.
 */
const SLOTS = 4;
const POLL_INTERVAL = 1_000;
const TIMEOUT = 20_000;
const PAGE = 1_000;

type StreamOptions = Parameters<Client["follow"]>[1];

/**
 * The envelopes of a session, like `follow`. A window without a free slot polls once a second and switches to a stream
 * when a slot is released. Without the Web Locks API every window streams.
 */
export async function* followInTurn(
  follow: (options: StreamOptions) => AsyncGenerator<Envelope, void, undefined>,
  read: (
    after: number,
    signal: AbortSignal,
  ) => Promise<{ readonly events: readonly Envelope[]; readonly next: number }>,
  options: Pick<FollowOptions, "after" | "profile" | "signal" | "onConnection"> = {},
): AsyncGenerator<Envelope, void, undefined> {
  const { signal, onConnection } = options;
  let after = options.after ?? 0;
  while (!signal?.aborted) {
    const leave = await takeSlot();
    if (leave) {
      try {
        return yield* follow({ ...options, after });
      } finally {
        leave();
      }
    }
    try {
      const { events, next } = await within(TIMEOUT, (ended) => read(after, ended), signal);
      onConnection?.("open");
      for (const envelope of events) {
        if (signal?.aborted) return;
        yield envelope;
      }
      after = Math.max(after, next);
      if (events.length === PAGE) continue;
    } catch (error) {
      if (signal?.aborted) return;
      if (error instanceof Problem && !error.transient) throw error;
      onConnection?.("waiting");
    }
    await pause(POLL_INTERVAL, signal);
  }
}

/** Takes a slot and returns its release function; null if all are taken. Closing a window releases its slot. */
async function takeSlot(): Promise<(() => void) | null> {
  if (!("locks" in navigator)) return () => {};
  for (let number = 1; number <= SLOTS; number++) {
    const leave = await new Promise<(() => void) | null>((taken) => {
      void navigator.locks.request(`stellwerk stream ${number}`, { ifAvailable: true }, (lock) =>
        lock ? new Promise<void>((left) => taken(left)) : taken(null),
      );
    });
    if (leave) return leave;
  }
  return null;
}
