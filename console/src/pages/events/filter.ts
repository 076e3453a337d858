import type { Envelope, Profile } from "@stellwerk/client";

/** What the address of the page says. */
export interface EventSearch {
  /** The position of the event that is looked at. */
  at?: number | undefined;
  /** Types, with commas in between; none is all. */
  type?: string | undefined;
  agent?: string | undefined;
  q?: string | undefined;
  profile?: Profile | undefined;
}

export interface Filter {
  readonly types: ReadonlySet<string>;
  readonly agent: string;
  /** In lower case. */
  readonly text: string;
}

/** Whatever stands in an address, as far as it makes sense. */
export function searchOf(given: Record<string, unknown>): EventSearch {
  const word = (value: unknown) => (value === undefined || value === "" ? undefined : String(value));
  return {
    at: placeFrom(given.at),
    type: word(given.type),
    agent: word(given.agent),
    q: word(given.q),
    profile: given.profile === "debug" ? "debug" : undefined,
  };
}

export function placeFrom(value: unknown): number | undefined {
  const number = Number(value);
  return value !== undefined && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
}

export function filterOf({ type, agent, q }: Pick<EventSearch, "type" | "agent" | "q">): Filter {
  return { types: new Set(type?.split(",")), agent: agent ?? "", text: (q ?? "").trim().toLowerCase() };
}

const texts = new WeakMap<Envelope, string>();

/** Made once for each envelope, and only if somebody looks for a text. */
function textOf(envelope: Envelope): string {
  const known = texts.get(envelope);
  if (known !== undefined) return known;
  const made = JSON.stringify(envelope).toLowerCase();
  texts.set(envelope, made);
  return made;
}

export function matches(envelope: Envelope, { types, agent, text }: Filter): boolean {
  return (
    (types.size === 0 || types.has(envelope.type)) &&
    (agent === "" || envelope.agent === agent) &&
    (text === "" || textOf(envelope).includes(text))
  );
}

/** What a filter lets through of a log that grows. */
export class Sieve {
  readonly rows: Envelope[] = [];
  #seen = 0;

  constructor(readonly filter: Filter) {}

  /** Looks at what has come since the last time. */
  shake(log: readonly Envelope[]): readonly Envelope[] {
    for (; this.#seen < log.length; this.#seen++) {
      const envelope = log[this.#seen];
      if (envelope !== undefined && matches(envelope, this.filter)) this.rows.push(envelope);
    }
    return this.rows;
  }
}

/** Where the event at this position stands in a list, or would stand. */
export function rowOf(rows: readonly Envelope[], position: number): { row: number; there: boolean } {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle]?.position ?? 0) < position) low = middle + 1;
    else high = middle;
  }
  return { row: low, there: rows[low]?.position === position };
}
