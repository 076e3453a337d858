import { useSyncExternalStore } from "react";

/** A text shared by all components. Survives a reload if storage is available. */
export interface Stored {
  get(): string | null;
  set(value: string | null): void;
  subscribe(listener: () => void): () => void;
}

const PREFIX = "stellwerk.";

/** The values stored before. */
export function namesOf(where: () => Storage): readonly string[] {
  try {
    const keys = Object.keys(where()).filter((key) => key.startsWith(PREFIX));
    return keys.map((key) => key.slice(PREFIX.length));
  } catch {
    return []; // storage is disabled
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
    return null; // storage is disabled
  }
}

function write(key: string, value: string | null, where: (() => Storage) | null): void {
  try {
    if (value === null) where?.().removeItem(key);
    else where?.().setItem(key, value);
  } catch {
    // kept for this page only
  }
}
