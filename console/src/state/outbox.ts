import { type Accepted, Problem } from "@stellwerk/client";
import { useMemo } from "react";
import { freshKey, sendMessage } from "../server/conversation";
import { pause } from "../server/pause";
import type { Draft } from "./draft";
import { namesOf, type Stored, stored, useStored } from "./stored";

/** What was said here. Its key stays the same, however often it is sent: the server takes it once. */
export interface Outgoing extends Draft {
  readonly key: string;
  /** As it was when it was said: a text that met a question answers that one, and no later one. */
  readonly ifBusy: "reject" | "enqueue";
  /** Where the log has it, once it was taken. */
  readonly position?: number;
  /** Why it was not taken. */
  readonly refusal?: { readonly status: number; readonly code: string; readonly detail: string };
}

const PREFIX = "outbox.";
const EMPTY: readonly Outgoing[] = [];
const places = new Map<string, Stored>();
const draining = new Set<string>();

function placeOf(sid: string): Stored {
  const place = places.get(sid) ?? stored(PREFIX + sid, () => sessionStorage);
  places.set(sid, place);
  return place;
}

function parsed(text: string | null): readonly Outgoing[] {
  return text === null ? EMPTY : (JSON.parse(text) as readonly Outgoing[]);
}

function change(sid: string, make: (now: readonly Outgoing[]) => readonly Outgoing[]): void {
  const place = placeOf(sid);
  const before = parsed(place.get());
  const after = make(before);
  if (after !== before) place.set(after.length ? JSON.stringify(after) : null);
}

/** What was said in a session and is not in its log yet, in that order. It outlives a reload. */
export function useOutbox(sid: string): readonly Outgoing[] {
  const text = useStored(placeOf(sid));
  return useMemo(() => parsed(text), [text]);
}

export function put(sid: string, { text, files }: Draft, ifBusy: Outgoing["ifBusy"]): void {
  change(sid, (now) => [...now, { text: text.trim(), files, ifBusy, key: freshKey() }]);
}

export function drop(sid: string, isGone: (message: Outgoing) => boolean): void {
  change(sid, (now) => (now.some(isGone) ? now.filter((message) => !isGone(message)) : now));
}

/** What was refused may be sent again. */
export function forgive(sid: string): void {
  change(sid, (now) => now.map(({ refusal: _, ...message }) => message));
}

/** What a reload has left behind in any session is sent, too. */
export function drainAll(): void {
  for (const name of namesOf(() => sessionStorage)) if (name.startsWith(PREFIX)) void drain(name.slice(PREFIX.length));
}

/** Sends what waits, one after the other, whatever page is open meanwhile; it ends at the first that is refused. */
export async function drain(sid: string, send: typeof sendMessage = sendMessage): Promise<void> {
  if (draining.has(sid)) return;
  draining.add(sid);
  try {
    for (let next = unsent(sid); next; next = unsent(sid)) {
      const { key } = next;
      const outcome = await tried(sid, next, send);
      change(sid, (now) => now.map((message) => (message.key === key ? { ...message, ...outcome } : message)));
    }
  } finally {
    draining.delete(sid);
  }
}

function unsent(sid: string): Outgoing | undefined {
  const next = parsed(placeOf(sid).get()).find(({ position }) => position === undefined);
  return next?.refusal === undefined ? next : undefined;
}

/** Until somebody takes or refuses it: a line that broke behind the request does not say which. */
async function tried(sid: string, { text, files, key, ifBusy }: Outgoing, send: typeof sendMessage) {
  const message = { text, documents: files.map(({ id }) => id), if_busy: ifBusy };
  for (let count = 0; ; count += 1) {
    try {
      const { position }: Accepted = await send(sid, message, key);
      return { position };
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const { status, code, message: detail } = error;
      if (status !== 0 && status < 502) return { refusal: { status, code, detail } };
      await pause(Math.min(500 * 2 ** count, 5_000));
    }
  }
}
