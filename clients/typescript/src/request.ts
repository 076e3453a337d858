import { problemOf, unexpectedResponse } from "./problem.js";

/** Options of a client: where the server is and how to authenticate. */
export interface ClientOptions {
  /** The server's address, such as `http://127.0.0.1:8000`. Default: the origin of the page. */
  readonly url?: string | undefined;
  /** Sent as `Authorization: Bearer …`. */
  readonly key?: string | undefined;
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof fetch | undefined;
  /** Aborts every request of this client. */
  readonly signal?: AbortSignal | undefined;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** A URL on this server. Rejects paths that lead to another host, because requests carry the key. */
export function address(options: ClientOptions, path: string, query: Query = {}): string {
  if (!OWN.test(path) || GAP.test(path))
    throw new TypeError(`"${path}" is not a path of the server: is an id missing?`);
  const wanted = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  const search = new URLSearchParams(wanted).toString();
  return (options.url ?? "").replace(/\/+$/, "") + path + (search && `?${search}`);
}

/** `//elsewhere.example` is another host. URL parsers drop line breaks and read a backslash as a slash. */
const OWN = /^\/(?!\/)[^?\s\\]*(\?|$)/;
/** An empty segment, `.` or `..` would reach another route. */
const GAP = /^[^?]*\/(\.|%2e){0,2}([/?]|$)/i;

export function segment(id: string): string {
  return encodeURIComponent(id);
}

/** Sends a request. Throws a `Problem` unless the response is 2xx. */
export async function request(options: ClientOptions, url: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (options.key !== undefined) headers.set("Authorization", `Bearer ${options.key}`);
  const signal = anySignal(init.signal, options.signal) ?? null;
  const response = await (options.fetch ?? fetch)(url, { ...init, headers, signal });
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** A signal that aborts with the first of these. */
export function anySignal(...signals: readonly (AbortSignal | null | undefined)[]): AbortSignal | undefined {
  const [one, ...others] = signals.filter((signal) => signal != null);
  return one && others.length ? AbortSignal.any([one, ...others]) : one;
}

export async function json<Body>(response: Response): Promise<Body> {
  try {
    return await response.json();
  } catch (error) {
    throw error instanceof SyntaxError ? unexpectedResponse(response) : error;
  }
}
