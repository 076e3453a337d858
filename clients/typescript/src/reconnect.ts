import { Problem } from "./problem.js";

const FIRST_PAUSE = 200;
const LONGEST_PAUSE = 5_000;
/** The maximum of a timer; a longer delay would fire at once. */
const LONGEST_TIMER = 2 ** 31 - 1;
/** Milliseconds without a byte before the connection counts as dead. Heartbeats come every 15 seconds. */
export const SILENCE = 40_000;

const SILENT = { code: "silent", detail: `The server sent nothing for ${SILENCE / 1000} seconds.` };

export type Connection = "connecting" | "open" | "waiting";

export interface ReconnectOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called when the connection changes: connecting, open, or lost (with the reason) and waiting to reconnect. */
  readonly onConnection?: ((connection: Connection, why?: unknown) => void) | undefined;
}

/** Opens one connection. The signal also aborts it when the connection is dead. */
export type OpenConnection = (signal: AbortSignal) => Promise<Response>;

export interface Source<Item> {
  readonly open: OpenConnection;
  readonly read: (stream: ReadableStream<Uint8Array>) => AsyncGenerator<Item, void, undefined>;
  /** Whether the stream ended because there is nothing more to read. */
  readonly over: (signal: AbortSignal) => Promise<boolean>;
  /** Whether a retry after this error is pointless. */
  readonly final: (error: unknown) => boolean;
}

/** A permanent error, such as 401 or 404. */
export function refused(error: unknown): boolean {
  return error instanceof Problem && !error.transient;
}

/** The items of a source across reconnects, until the source is over or the signal aborts. */
export async function* reconnecting<Item>(
  options: ReconnectOptions,
  source: Source<Item>,
): AsyncGenerator<Item, void, undefined> {
  const { signal, onConnection } = options;
  for (let attempt = 0; !signal?.aborted; attempt++) {
    onConnection?.("connecting");
    const connection = new TimedConnection(signal);
    let problem: unknown;
    try {
      for await (const item of source.read(await connection.stream(source.open, () => onConnection?.("open")))) {
        if (signal?.aborted) return;
        attempt = 0;
        yield item;
      }
      if (await source.over(connection.ended)) return;
    } catch (error) {
      if (signal?.aborted) return;
      if (source.final(error)) throw error;
      problem = error;
    } finally {
      connection.close();
    }
    if (signal?.aborted) return;
    onConnection?.("waiting", problem);
    await pause(pauseBefore(attempt, problem), signal);
  }
}

/** Exponential backoff with jitter, so that many pages do not reconnect at the same moment. */
function pauseBefore(attempt: number, problem: unknown): number {
  const named = problem instanceof Problem ? (problem.retryAfter ?? 0) * 1000 : 0;
  const longest = Math.min(FIRST_PAUSE * 2 ** attempt, LONGEST_PAUSE);
  return Math.min(named + longest * (0.5 + Math.random() / 2), LONGEST_TIMER);
}

function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
  });
}

/** One connection with a timeout on silence: a dead TCP connection reports no error. */
class TimedConnection {
  readonly #ending = new AbortController();
  readonly #end = () => this.#ending.abort(this.signal?.reason);
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly signal?: AbortSignal) {
    signal?.addEventListener("abort", this.#end);
    if (signal?.aborted) this.#end();
  }

  get ended(): AbortSignal {
    return this.#ending.signal;
  }

  async stream(open: OpenConnection, opened: () => void): Promise<ReadableStream<Uint8Array>> {
    this.#restartTimer();
    const response = await open(this.#ending.signal);
    opened();
    const monitored = new TransformStream<Uint8Array, Uint8Array>({
      transform: (piece, control) => {
        this.#restartTimer();
        control.enqueue(piece);
      },
    });
    // If the last byte arrives during the abort, a reader in Node 20 and 22 waits forever.
    return (response.body ?? new Blob().stream()).pipeThrough(monitored, { signal: this.#ending.signal });
  }

  close(): void {
    clearTimeout(this.#timer);
    this.signal?.removeEventListener("abort", this.#end);
    this.#end();
  }

  #restartTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ending.abort(new Problem(0, SILENT)), SILENCE);
  }
}
