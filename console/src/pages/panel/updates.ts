import type { Client, UpdateEnvelope } from "@stellwerk/client";
import { createContext, useContext, useEffect, useSyncExternalStore } from "react";

const PAGE = 1_000;
/** Milliseconds between two requests while the log grows. */
const PAUSE = 1_000;

export interface Read {
  readonly updates: readonly UpdateEnvelope[];
  /** The position up to which the log has been read. */
  readonly position: number;
  readonly problem?: unknown;
}

const NOTHING: Read = { updates: [], position: 0 };

/**
 * The updates of a log. Sessions are followed in the user profile, which omits updates, so they are read page by
 * page, and only when an open view shows them.
 */
export class UpdatesReader {
  #read: Read = NOTHING;
  #wanted = 0;
  #busy = false;
  readonly #listeners = new Set<() => void>();

  constructor(
    readonly client: Pick<Client, "events">,
    readonly sid: string,
    readonly pause = PAUSE,
  ) {}

  readonly get = (): Read => this.#read;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  want(position: number): void {
    this.#wanted = Math.max(this.#wanted, position);
    if (!this.#busy && this.#read.position < this.#wanted) void this.#follow();
  }

  async #follow(): Promise<void> {
    this.#busy = true;
    try {
      while (this.#read.position < this.#wanted && this.#listeners.size > 0) {
        const { events, next } = await this.client.events(this.sid, {
          after: this.#read.position,
          limit: PAGE,
          profile: "debug",
        });
        const found = events.filter((envelope): envelope is UpdateEnvelope => envelope.type === "update");
        const { updates } = this.#read;
        this.#show({ updates: found.length > 0 ? [...updates, ...found] : updates, position: next });
        if (events.length === 0) break;
        if (events.length < PAGE) await new Promise((resolve) => setTimeout(resolve, this.pause));
      }
    } catch (problem) {
      this.#show({ ...this.#read, problem }); // retried after the next event
    } finally {
      this.#busy = false;
    }
  }

  #show(read: Read): void {
    this.#read = read;
    for (const listener of this.#listeners) listener();
  }
}

export const Updates = createContext<UpdatesReader | null>(null);

/** The updates read so far, up to the shown position. */
export function useUpdates(position: number): Read {
  const reader = useContext(Updates);
  const read = useSyncExternalStore(reader?.subscribe ?? noSubscription, reader?.get ?? nothing);
  useEffect(() => reader?.want(position), [reader, position]);
  return read;
}

const noSubscription = () => () => {};
const nothing = () => NOTHING;
