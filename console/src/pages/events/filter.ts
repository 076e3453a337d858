import type { Envelope, Profile } from "@stellwerk/client";

/** The URL parameters of the page. */
export interface EventSearch {
  /** The position of the selected event. */
  at?: number | undefined;
  /** Comma-separated types; empty means all. */
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

/** Parses the URL and drops invalid values. */
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

/** Computed once per envelope, and only when a text filter is used. */
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

/** A filter over a growing log. */
export class Sieve {
  readonly rows: Envelope[] = [];
  #seen = 0;

  constructor(readonly filter: Filter) {}

  /** Processes new events. */
  shake(log: readonly Envelope[]): readonly Envelope[] {
    for (; this.#seen < log.length; this.#seen++) {
      const envelope = log[this.#seen];
      if (envelope !== undefined && matches(envelope, this.filter)) this.rows.push(envelope);
    }
    return this.rows;
  }
}

/** The index of a position in a list, or where it would be. */
export function rowOf(rows: readonly Envelope[], position: number): { row: number; there: boolean } {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle]?.position ?? 0) < position) low = middle + 1;
    else high = middle;
  }
  return { row: low, there: rows[low]?.position === position };
}
