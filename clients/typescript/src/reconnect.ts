import { Problem } from "./problem.js";

const FIRST_PAUSE = 200;
const LONGEST_PAUSE = 5_000;
/** What a timer can hold; a longer time would be none at all. */
const LONGEST_TIMER = 2 ** 31 - 1;
/** Milliseconds without a byte; of the heartbeats, which come every 15 seconds, two are missing by then. */
export const SILENCE = 40_000;

const SILENT = { code: "silent", detail: `Nothing was heard of the server for ${SILENCE / 1000} seconds.` };

export type Connection = "connecting" | "open" | "waiting";

export interface Reconnecting {
  readonly signal?: AbortSignal | undefined;
  /** Told when the connection changes: it is tried, it is there, it is lost (and why) and will be tried again. */
  readonly onConnection?: ((connection: Connection, why?: unknown) => void) | undefined;
}

/** Bytes of one connection; whoever opens it gets a signal that also ends it when the line is dead. */
export type Opened = (signal: AbortSignal) => Promise<Response>;

export interface Source<Item> {
  readonly open: Opened;
  readonly read: (stream: ReadableStream<Uint8Array>) => AsyncGenerator<Item, void, undefined>;
  /** Whether a stream that has ended was the last one. */
  readonly over: (signal: AbortSignal) => Promise<boolean>;
  /** Whether it is no use to come back after this error. */
  readonly final: (error: unknown) => boolean;
}

/** A refusal that will not pass, such as 401 or 404. */
export function refused(error: unknown): boolean {
  return error instanceof Problem && !error.passing;
}

/** What a source gives over one connection after another, until it is over, or until the signal ends it. */
export async function* reconnecting<Item>(
  wishes: Reconnecting,
  source: Source<Item>,
): AsyncGenerator<Item, void, undefined> {
  const { signal, onConnection } = wishes;
  for (let attempt = 0; !signal?.aborted; attempt++) {
    onConnection?.("connecting");
    const line = new Line(signal);
    let problem: unknown;
    try {
      for await (const item of source.read(await line.stream(source.open, () => onConnection?.("open")))) {
        if (signal?.aborted) return;
        attempt = 0;
        yield item;
      }
      if (await source.over(line.ended)) return;
    } catch (error) {
      if (signal?.aborted) return;
      if (source.final(error)) throw error;
      problem = error;
    } finally {
      line.close();
    }
    if (signal?.aborted) return;
    onConnection?.("waiting", problem);
    await pause(pauseBefore(attempt, problem), signal);
  }
}

/** Between half and all of a time that doubles, so that a thousand pages do not come back in the same moment. */
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

/** One connection, given up when it falls silent: a dead line says nothing, not even that it is dead. */
class Line {
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

  async stream(open: Opened, opened: () => void): Promise<ReadableStream<Uint8Array>> {
    this.#heard();
    const response = await open(this.#ending.signal);
    opened();
    const heard = new TransformStream<Uint8Array, Uint8Array>({
      transform: (piece, control) => {
        this.#heard();
        control.enqueue(piece);
      },
    });
    // If the last byte comes in the moment of the abort, Node 20 and 22 let whoever reads wait for ever.
    return (response.body ?? new Blob().stream()).pipeThrough(heard, { signal: this.#ending.signal });
  }

  close(): void {
    clearTimeout(this.#timer);
    this.signal?.removeEventListener("abort", this.#end);
    this.#end();
  }

  #heard(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ending.abort(new Problem(0, SILENT)), SILENCE);
  }
}
