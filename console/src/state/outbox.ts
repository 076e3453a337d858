import { type Accepted, Problem } from "@stellwerk/client";
import { useMemo } from "react";
import { freshKey, sendMessage } from "../server/conversation";
import { pause } from "../server/timeouts";
import type { Draft } from "./draft";
import { namesOf, type Stored, stored, useStored } from "./stored";

export interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  /** The invalid field, such as `input.topic`. */
  readonly field?: string | undefined;
}

/** A message to send. Its idempotency key stays the same across retries, so the server accepts it once. */
export interface Outgoing extends Draft {
  readonly key: string;
  /** The question that was open when it was written: the text answers this one and no later one. */
  readonly ifBusy: "reject" | "enqueue";
  /** Its position in the log, once accepted. */
  readonly position?: number;
  /** Why it was rejected. */
  readonly refusal?: Refusal;
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

/** Messages of a session that are not in its log yet, in order. Survives a reload. */
export function useOutbox(sid: string): readonly Outgoing[] {
  const text = useStored(placeOf(sid));
  return useMemo(() => parsed(text), [text]);
}

export function put(sid: string, { text, ...rest }: Draft, ifBusy: Outgoing["ifBusy"]): void {
  change(sid, (now) => [...now, { ...rest, text: text.trim(), ifBusy, key: freshKey() }]);
}

export function drop(sid: string, isGone: (message: Outgoing) => boolean): void {
  change(sid, (now) => (now.some(isGone) ? now.filter((message) => !isGone(message)) : now));
}

/** Sends a rejected message again. */
export function forgive(sid: string): void {
  change(sid, (now) => now.map(({ refusal: _, ...message }) => message));
}

/** Sends what a reload left behind in any session. */
export function drainAll(): void {
  for (const name of namesOf(() => sessionStorage)) if (name.startsWith(PREFIX)) void drain(name.slice(PREFIX.length));
}

/** Sends waiting messages in order, whatever page is open; stops at the first rejected one. */
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

/** Retries until the server accepts or rejects: a broken connection does not tell which. */
async function tried(sid: string, outgoing: Outgoing, send: typeof sendMessage) {
  const { text, files, parameters, key, ifBusy } = outgoing;
  const message = { text, documents: files.map(({ id }) => id), ...parameters, if_busy: ifBusy };
  for (let count = 0; ; count += 1) {
    try {
      const { position }: Accepted = await send(sid, message, key);
      return { position };
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const { status, code, message: detail, field } = error;
      if (status !== 0 && status < 502) return { refusal: { status, code, detail, field } };
      await pause(Math.min(500 * 2 ** count, 5_000));
    }
  }
}
