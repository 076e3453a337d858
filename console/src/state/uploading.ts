import { useSyncExternalStore } from "react";
import { freshKey } from "../server/conversation";
import { upload } from "../server/upload";
import { attach, take } from "./draft";
import { drain, type Outgoing, put } from "./outbox";

/** A file on its way to the server. */
export interface Upload {
  readonly key: string;
  readonly name: string;
  /** Takes it away. */
  readonly cancel: () => void;
}

const NONE: readonly Upload[] = [];
const underWay = new Map<string, readonly Upload[]>();
/** What is to be sent as soon as its files are there; a reload, which ends the uploads, forgets it. */
const wishes = new Map<string, Pick<Outgoing, "text" | "ifBusy">>();
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function change(sid: string, make: (now: readonly Upload[]) => readonly Upload[]): void {
  underWay.set(sid, make(underWay.get(sid) ?? NONE));
  tell();
}

function tell(): void {
  for (const listener of listeners) listener();
}

/** What is under way for the next message of a session. */
export const useUploads = (sid: string): readonly Upload[] =>
  useSyncExternalStore(subscribe, () => underWay.get(sid) ?? NONE);

/** Sends what stands there when all files have arrived. Whoever writes on, or loses a file, is to say so again. */
export function sendWhenThere(sid: string, { text, ifBusy }: Pick<Outgoing, "text" | "ifBusy">): void {
  wishes.set(sid, { text, ifBusy });
  tell();
}

/** The text that waits for its files. */
export const useWaitingText = (sid: string): string | undefined =>
  useSyncExternalStore(subscribe, () => wishes.get(sid)?.text);

function arrived(sid: string): void {
  const wish = wishes.get(sid);
  if (!wish || underWay.get(sid)?.length) return;
  wishes.delete(sid);
  tell();
  const draft = take(sid, wish.text);
  if (!draft) return;
  put(sid, draft, wish.ifBusy);
  void drain(sid);
}

/** Adds a file to what is being written in a session, whatever page is open meanwhile; nothing is sent there before. */
export async function uploadFor(sid: string, file: File): Promise<void> {
  const key = freshKey();
  const ending = new AbortController();
  change(sid, (now) => [...now, { key, name: file.name, cancel: () => ending.abort() }]);
  try {
    const { id, filename } = await upload(file, { signal: ending.signal });
    attach(sid, { id, name: filename });
  } catch (why) {
    wishes.delete(sid);
    if (!ending.signal.aborted) throw why;
  } finally {
    change(sid, (now) => now.filter((one) => one.key !== key));
    arrived(sid);
  }
}
