import { useSyncExternalStore } from "react";
import { freshKey } from "../server/conversation";
import { upload } from "../server/upload";
import { attach, take } from "./draft";
import { drain, type Outgoing, put } from "./outbox";

/** A file being uploaded. */
export interface Upload {
  readonly key: string;
  readonly name: string;
  /** Cancels the upload. */
  readonly cancel: () => void;
}

type Pending = Pick<Outgoing, "text" | "parameters" | "ifBusy">;

const NONE: readonly Upload[] = [];
const underWay = new Map<string, readonly Upload[]>();
/** Messages to send when their files are uploaded. A reload ends the uploads and forgets them. */
const pending = new Map<string, Pending>();
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

/** The uploads for the next message of a session. */
export const useUploads = (sid: string): readonly Upload[] =>
  useSyncExternalStore(subscribe, () => underWay.get(sid) ?? NONE);

/** Sends the draft when all uploads are complete. Editing the text or losing a file cancels this. */
export function sendWhenThere(sid: string, message: Pending): void {
  pending.set(sid, message);
  tell();
}

/** The text that waits for its uploads. */
export const useWaitingText = (sid: string): string | undefined =>
  useSyncExternalStore(subscribe, () => pending.get(sid)?.text);

function arrived(sid: string): void {
  const message = pending.get(sid);
  if (!message || underWay.get(sid)?.length) return;
  pending.delete(sid);
  tell();
  const draft = take(sid, message.text);
  if (!draft) return;
  const { parameters, ifBusy } = message;
  put(sid, { ...draft, ...(parameters && { parameters }) }, ifBusy);
  void drain(sid);
}

/** Uploads a file for the draft of a session, whatever page is open; nothing is sent before it is complete. */
export async function uploadFor(sid: string, file: File): Promise<void> {
  const key = freshKey();
  const ending = new AbortController();
  change(sid, (now) => [...now, { key, name: file.name, cancel: () => ending.abort() }]);
  try {
    const { id, filename } = await upload(file, { signal: ending.signal });
    attach(sid, { id, name: filename });
  } catch (why) {
    pending.delete(sid);
    if (!ending.signal.aborted) throw why;
  } finally {
    change(sid, (now) => now.filter((one) => one.key !== key));
    arrived(sid);
  }
}
