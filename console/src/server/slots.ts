import type { Client, Envelope, FollowOptions } from "@stellwerk/client";
import { Problem } from "@stellwerk/client";
import { pause, within } from "./pause";

/**
 * A browser has six connections for a server, for all windows together. Four windows may hold a stream, one holds the
 * list of sessions, and one connection is left for what is asked and said.
 */
const SLOTS = 4;
const EACH = 1_000;
const PATIENCE = 20_000;
const PAGE = 1_000;

type Wishes = Parameters<Client["follow"]>[1];

/**
 * The envelopes of a session, like `follow`. A window for which no slot is free asks for them once a second, and has a
 * stream as soon as another window has given its own away. Where the browser knows no locks, every window has one.
 */
export async function* followInTurn(
  follow: (wishes: Wishes) => AsyncGenerator<Envelope, void, undefined>,
  read: (
    after: number,
    signal: AbortSignal,
  ) => Promise<{ readonly events: readonly Envelope[]; readonly next: number }>,
  wishes: Pick<FollowOptions, "after" | "profile" | "signal" | "onConnection"> = {},
): AsyncGenerator<Envelope, void, undefined> {
  const { signal, onConnection } = wishes;
  let after = wishes.after ?? 0;
  while (!signal?.aborted) {
    const leave = await takeSlot();
    if (leave) {
      try {
        return yield* follow({ ...wishes, after });
      } finally {
        leave();
      }
    }
    try {
      const { events, next } = await within(PATIENCE, (ended) => read(after, ended), signal);
      onConnection?.("open");
      for (const envelope of events) {
        if (signal?.aborted) return;
        yield envelope;
      }
      after = Math.max(after, next);
      if (events.length === PAGE) continue;
    } catch (error) {
      if (signal?.aborted) return;
      if (error instanceof Problem && !error.passing) throw error;
      onConnection?.("waiting");
    }
    await pause(EACH, signal);
  }
}

/** What gives it back; null if all are taken. A window that is closed gives its own back by that. */
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
