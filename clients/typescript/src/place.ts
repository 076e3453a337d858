import { foreign, problemOf } from "./problem.js";

/** Where the server is, and who asks. */
export interface Place {
  /** Its address, such as `http://127.0.0.1:8000`; without it, the one that the page came from. */
  readonly url?: string | undefined;
  /** Sent as `Authorization: Bearer …`. */
  readonly key?: string | undefined;
  /** Another `fetch` than the global one. */
  readonly fetch?: typeof fetch | undefined;
  /** Ends every request that is made with it. Without it, each waits for its answer. */
  readonly signal?: AbortSignal | undefined;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** An address of this server and no other, as the key goes along. */
export function address(place: Place, path: string, query: Query = {}): string {
  if (!OWN.test(path) || GAP.test(path)) throw new TypeError(`"${path}" is no path of the server: is an id missing?`);
  const wanted = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  const search = new URLSearchParams(wanted).toString();
  return (place.url ?? "").replace(/\/+$/, "") + path + (search && `?${search}`);
}

/** `//elsewhere.example` is another server; and of an address, line ends are left out, and a backslash is a slash. */
const OWN = /^\/(?!\/)[^?\s\\]*(\?|$)/;
/** A part that is empty, or leads upwards: it would be another route. */
const GAP = /^[^?]*\/(\.|%2e){0,2}([/?]|$)/i;

export function part(id: string): string {
  return encodeURIComponent(id);
}

/** The answer, if it is a good one; else a `Problem` is thrown. */
export async function ask(place: Place, url: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (place.key !== undefined) headers.set("Authorization", `Bearer ${place.key}`);
  const signal = either(init.signal, place.signal) ?? null;
  const response = await (place.fetch ?? fetch)(url, { ...init, headers, signal });
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** Ends with whichever of them ends first. */
export function either(...signals: readonly (AbortSignal | null | undefined)[]): AbortSignal | undefined {
  const [one, ...others] = signals.filter((signal) => signal != null);
  return one && others.length ? AbortSignal.any([one, ...others]) : one;
}

export async function json<Answer>(response: Response): Promise<Answer> {
  try {
    return await response.json();
  } catch (error) {
    throw error instanceof SyntaxError ? foreign(response) : error;
  }
}
