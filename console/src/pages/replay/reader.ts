import type { Client, EventPage } from "@stellwerk/client";
import { Tape } from "./tape";

const PAGE = 1000;
/** Milliseconds between two pages while the log grows. */
const PAUSE = 250;

export interface Reading {
  /** The number of envelopes on the tape. */
  readonly length: number;
  /** The position up to which the log has been read. */
  readonly position: number;
  readonly problem?: unknown;
}

/** Reads a log onto a tape, page by page, as far as requested. Needs no stream. */
export class LogReader {
  readonly tape = new Tape();
  #reading: Reading = { length: 0, position: 0 };
  #wanted = 0;
  #busy = false;
  readonly #listeners = new Set<() => void>();

  constructor(
    readonly client: Pick<Client, "events">,
    readonly sid: string,
  ) {}

  readonly get = (): Reading => this.#reading;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  want(position: number): void {
    if (position <= this.#wanted) return;
    this.#wanted = position;
    this.retry(); // new events show that the server is reachable
  }

  retry(): void {
    if (this.#reading.problem !== undefined) this.#show({ problem: undefined });
    if (!this.#busy) void this.#read();
  }

  async #read(): Promise<void> {
    this.#busy = true;
    try {
      while (this.#reading.position < this.#wanted) {
        const page = await this.#page();
        this.tape.add(page.events);
        this.#show({ length: this.tape.length, position: Math.max(page.next, this.tape.end.position) });
        if (page.events.length === 0) break;
        if (page.events.length < PAGE) await new Promise((resolve) => setTimeout(resolve, PAUSE));
        if (this.#listeners.size === 0) break;
      }
    } catch (problem) {
      this.#show({ problem });
    } finally {
      this.#busy = false;
    }
  }

  #page(): Promise<EventPage> {
    return this.client.events(this.sid, { after: this.#reading.position, limit: PAGE, profile: "user" });
  }

  #show(news: Partial<Reading>): void {
    this.#reading = { ...this.#reading, ...news };
    for (const listener of this.#listeners) listener();
  }
}
