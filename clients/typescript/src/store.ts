import type { Client } from "./client.js";
import { Problem } from "./problem.js";
import type { Connection } from "./reconnect.js";
import { reduce } from "./reduce.js";
import { EMPTY, type Session } from "./session.js";

/** A session and the state of its connection. */
export interface Live {
  readonly session: Session;
  /** `closed`: no subscribers, or a permanent error. */
  readonly connection: Connection | "closed";
  /** The permanent error: the session does not exist, or the key is rejected. */
  readonly problem?: Problem;
  /** Why the connection was lost; it is being retried. */
  readonly lost?: unknown;
}

/**
 * A live session for any number of subscribers: one shared connection, and none without subscribers. Envelopes of one
 * frame are shown together. A hidden page disconnects, because a browser allows only six connections per server; it
 * resumes at its position, so nothing is lost.
 */
export class LiveSession {
  #live: Live = { session: EMPTY, connection: "closed" };
  #latest: Session = EMPTY;
  #following: AbortController | undefined;
  #frame: number | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(
    readonly client: Client,
    readonly id: string,
  ) {}

  readonly get = (): Live => this.#live;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) this.#watch();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#leave();
    };
  };

  #watch(): void {
    globalThis.document?.addEventListener("visibilitychange", this.#look);
    this.#look();
  }

  #leave(): void {
    globalThis.document?.removeEventListener("visibilitychange", this.#look);
    this.#close();
  }

  readonly #look = (): void => {
    if (globalThis.document?.hidden) this.#close();
    else if (this.#following === undefined && this.#live.problem === undefined) void this.#follow();
  };

  async #follow(): Promise<void> {
    const following = new AbortController();
    this.#following = following;
    const { signal } = following;
    const onConnection = (connection: Connection, lost?: unknown) =>
      !signal.aborted && this.#show({ connection, ...(connection !== "connecting" && { lost }) });
    const after = this.#latest.position;
    try {
      for await (const envelope of this.client.follow(this.id, { after, signal, onConnection })) {
        this.#latest = reduce(this.#latest, envelope);
        this.#frame ??= inFrame(this.#shown);
      }
    } catch (error) {
      this.#close();
      if (!(error instanceof Problem)) throw error;
      this.#show({ problem: error });
    }
  }

  #close(): void {
    if (this.#following === undefined) return;
    this.#following.abort();
    this.#following = undefined;
    if (this.#frame !== undefined) cancelFrame(this.#frame);
    this.#frame = undefined;
    this.#show({ session: this.#latest, connection: "closed" });
  }

  readonly #shown = (): void => {
    this.#frame = undefined;
    this.#show({ session: this.#latest });
  };

  #show(news: Partial<Live>): void {
    this.#live = { ...this.#live, ...news };
    for (const listener of this.#listeners) listener();
  }
}

const held = new WeakMap<Client, Map<string, WeakRef<LiveSession>>>();

/** The existing live session of a client, unless it failed permanently; components share it. */
export function liveSession(client: Client, id: string): LiveSession {
  const known = held.get(client) ?? new Map<string, WeakRef<LiveSession>>();
  const found = known.get(id)?.deref();
  if (found !== undefined && found.get().problem === undefined) return found;
  const live = new LiveSession(client, id);
  held.set(client, known.set(id, new WeakRef(live)));
  return live;
}

/** Without a page there are no animation frames; the next macrotask takes their place. */
function inFrame(callback: () => void): number {
  return typeof requestAnimationFrame === "function"
    ? requestAnimationFrame(callback)
    : (setTimeout(callback) as unknown as number);
}

function cancelFrame(frame: number): void {
  if (typeof cancelAnimationFrame === "function") cancelAnimationFrame(frame);
  else clearTimeout(frame);
}
