import { useSyncExternalStore } from "react";

/** A text that every component sees change. It outlives a reload if there is a place for it that works. */
export interface Stored {
  get(): string | null;
  set(value: string | null): void;
  subscribe(listener: () => void): () => void;
}

const PREFIX = "stellwerk.";

/** What was stored there before. */
export function namesOf(where: () => Storage): readonly string[] {
  try {
    const keys = Object.keys(where()).filter((key) => key.startsWith(PREFIX));
    return keys.map((key) => key.slice(PREFIX.length));
  } catch {
    return []; // storage is switched off
  }
}

export function stored(name: string, where: (() => Storage) | null): Stored {
  const key = PREFIX + name;
  const listeners = new Set<() => void>();
  let value = read(key, where);
  return {
    get: () => value,
    set(next) {
      value = next;
      write(key, next, where);
      for (const listener of listeners) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useStored(of: Stored): string | null {
  return useSyncExternalStore(of.subscribe, of.get);
}

function read(key: string, where: (() => Storage) | null): string | null {
  try {
    return where?.().getItem(key) ?? null;
  } catch {
    return null; // storage is switched off
  }
}

function write(key: string, value: string | null, where: (() => Storage) | null): void {
  try {
    if (value === null) where?.().removeItem(key);
    else where?.().setItem(key, value);
  } catch {
    // it lasts as long as the page, then
  }
}
