import { EMPTY, type Envelope, reduce, type Session } from "@stellwerk/client";

/** Envelopes between two folds that are kept: any other is at most this many steps away. */
const STRIDE = 200;
/** Seconds that a pause lasts at most; nobody wants to wait for an answer that took a day. */
export const LONGEST_PAUSE = 3;

export interface Pause {
  /** How long it was in truth, in seconds. */
  readonly seconds: number;
  /** When it begins and ends on the tape. */
  readonly from: number;
  readonly to: number;
}

/**
 * A session as it was after each of its envelopes, and when on a clock whose long pauses are cut. An index is a number
 * of envelopes: 0 is before the first. What is read later is put at the end.
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

  /** The session after all of it. */
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

  /** The envelope that the session at this index has come to. */
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

  /** How many envelopes there are up to this position of the log. */
  index(position: number): number {
    return upTo(this.length, (at) => (this.#envelopes[at]?.position ?? 0) <= position);
  }

  /** Seconds since the first envelope, long pauses cut. */
  time(index: number): number {
    return this.#times[index] ?? this.#times.at(-1) ?? 0;
  }

  /** The last index whose time has come. */
  indexAt(time: number): number {
    return upTo(this.length, (at) => this.time(at + 1) <= time);
  }

  /** The pause, if it was cut, that comes after this index. */
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

/** How many of the first things are so; all that are stand in front. */
function upTo(count: number, so: (index: number) => boolean): number {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (so(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
