import { useSyncExternalStore } from "react";
import { freshKey } from "../server/conversation";
import { upload } from "../server/upload";
import { attach } from "./draft";

/** A file on its way to the server. */
export interface Upload {
  readonly key: string;
  readonly name: string;
  /** Takes it away. */
  readonly cancel: () => void;
}

const NONE: readonly Upload[] = [];
const underWay = new Map<string, readonly Upload[]>();
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function change(sid: string, make: (now: readonly Upload[]) => readonly Upload[]): void {
  underWay.set(sid, make(underWay.get(sid) ?? NONE));
  for (const listener of listeners) listener();
}

/** What is under way for the next message of a session. */
export const useUploads = (sid: string): readonly Upload[] =>
  useSyncExternalStore(subscribe, () => underWay.get(sid) ?? NONE);

/** Adds a file to what is being written in a session, whatever page is open meanwhile; nothing is sent there before. */
export async function uploadFor(sid: string, file: File): Promise<void> {
  const key = freshKey();
  const ending = new AbortController();
  change(sid, (now) => [...now, { key, name: file.name, cancel: () => ending.abort() }]);
  try {
    const { id, filename } = await upload(file, { signal: ending.signal });
    attach(sid, { id, name: filename });
  } catch (why) {
    if (!ending.signal.aborted) throw why;
  } finally {
    change(sid, (now) => now.filter((one) => one.key !== key));
  }
}
