import { problemOf } from "./problem.js";

/** Where the server is, and who asks. */
export interface Place {
  /** Its address, such as `http://127.0.0.1:8000`; without it, the one that the page came from. */
  readonly url?: string;
  /** Sent as `Authorization: Bearer …`. */
  readonly key?: string;
  /** Another `fetch` than the global one. */
  readonly fetch?: typeof fetch;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export function address(place: Place, path: string, query: Query = {}): string {
  const wanted = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  const search = new URLSearchParams(wanted).toString();
  return (place.url ?? "").replace(/\/+$/, "") + path + (search && `?${search}`);
}

/** The answer, if it is a good one; else a `Problem` is thrown. */
export async function ask(place: Place, url: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (place.key !== undefined) headers.set("Authorization", `Bearer ${place.key}`);
  const response = await (place.fetch ?? fetch)(url, { ...init, headers });
  if (!response.ok) throw await problemOf(response);
  return response;
}
