import type { Client } from "./client.js";
import { Problem } from "./problem.js";
import type { Connection } from "./reconnect.js";
import { reduce } from "./reduce.js";
import { EMPTY, type Session } from "./session.js";

/** What is shown of a session, and how the line to it is. */
export interface Live {
  readonly session: Session;
  /** `closed`: nobody looks, or it is over for good. */
  readonly connection: Connection | "closed";
  /** Why it is over for good: the session is not there, or not yours. */
  readonly problem?: Problem;
  /** Why the connection was lost that is tried again. */
  readonly lost?: unknown;
}

/**
 * One session as it goes on, for as many as subscribe: one connection for all of them, and none without them. What
 * comes within a frame is shown at once. A hidden page lets its connection go, as a browser has only six for a server;
 * it comes back by position, so nothing is lost.
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

/** The one that somebody holds already, unless it is over for good; so those who look at a session share it. */
export function liveSession(client: Client, id: string): LiveSession {
  const known = held.get(client) ?? new Map<string, WeakRef<LiveSession>>();
  const found = known.get(id)?.deref();
  if (found !== undefined && found.get().problem === undefined) return found;
  const live = new LiveSession(client, id);
  held.set(client, known.set(id, new WeakRef(live)));
  return live;
}

/** Outside of a page there are no frames; there the end of the turn is one. */
function inFrame(callback: () => void): number {
  return typeof requestAnimationFrame === "function"
    ? requestAnimationFrame(callback)
    : (setTimeout(callback) as unknown as number);
}

function cancelFrame(frame: number): void {
  if (typeof cancelAnimationFrame === "function") cancelAnimationFrame(frame);
  else clearTimeout(frame);
}
