import { EMPTY, type Envelope, reduce, type Session } from "@stellwerk/client";

/** Envelopes between two stored snapshots: any session is at most this many steps away. */
const STRIDE = 200;
/** Maximum length of a pause in seconds, so that a replay does not wait for a day. */
export const LONGEST_PAUSE = 3;

export interface Pause {
  /** Its real length in seconds. */
  readonly seconds: number;
  /** Its start and end on the tape. */
  readonly from: number;
  readonly to: number;
}

/**
 * A session after each of its envelopes, with a clock whose long pauses are shortened. An index is a number
 * of envelopes: 0 is before the first. New envelopes are appended.
 */
export class Tape {
  readonly #envelopes: Envelope[] = [];
  readonly #marks: Session[] = [EMPTY];
  readonly #times: number[] = [0];
  readonly #pauses: Pause[] = [];
  #end: Session = EMPTY;
  #near: { readonly index: number; readonly session: Session } = { index: 0, session: EMPTY };

  get length(): number {
    return this.#envelopes.length;
  }

  /** The session after all envelopes. */
  get end(): Session {
    return this.#end;
  }

  get pauses(): readonly Pause[] {
    return this.#pauses;
  }

  add(envelopes: readonly Envelope[]): void {
    for (const envelope of envelopes) {
      if (envelope.position <= this.#end.position) continue;
      this.#times.push(this.#after(envelope));
      this.#envelopes.push(envelope);
      this.#end = reduce(this.#end, envelope);
      if (this.length % STRIDE === 0) this.#marks.push(this.#end);
    }
  }

  /** The last envelope of the session at this index. */
  envelope(index: number): Envelope | undefined {
    return this.#envelopes[index - 1];
  }

  session(index: number): Session {
    if (index >= this.length) return this.#end;
    const mark = Math.floor(index / STRIDE);
    const near = this.#near.index <= index && this.#near.index >= mark * STRIDE;
    const [from, start] = near ? [this.#near.index, this.#near.session] : [mark * STRIDE, this.#marks[mark] ?? EMPTY];
    const session = this.#envelopes.slice(from, index).reduce(reduce, start);
    this.#near = { index, session };
    return session;
  }

  /** The number of envelopes up to this position of the log. */
  index(position: number): number {
    return upTo(this.length, (at) => (this.#envelopes[at]?.position ?? 0) <= position);
  }

  /** Seconds since the first envelope, with long pauses shortened. */
  time(index: number): number {
    return this.#times[index] ?? this.#times.at(-1) ?? 0;
  }

  /** The last index at this time. */
  indexAt(time: number): number {
    return upTo(this.length, (at) => this.time(at + 1) <= time);
  }

  /** The shortened pause after this index, if any. */
  pauseAfter(index: number): Pause | undefined {
    const at = upTo(this.#pauses.length, (one) => (this.#pauses[one]?.from ?? 0) < this.time(index));
    const pause = this.#pauses[at];
    return pause?.to === this.time(index + 1) ? pause : undefined;
  }

  #after(envelope: Envelope): number {
    const before = this.#envelopes.at(-1);
    if (before === undefined) return 0;
    const seconds = Math.max(0, envelope.ts - before.ts); // clocks of two servers may differ
    const from = this.time(this.length);
    const to = from + Math.min(seconds, LONGEST_PAUSE);
    if (seconds > LONGEST_PAUSE) this.#pauses.push({ seconds, from, to });
    return to;
  }
}

/** Binary search: the number of leading items that satisfy the condition. */
function upTo(count: number, so: (index: number) => boolean): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (so(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
