import { Problem, problemOf } from "@stellwerk/client";
import { currentKey, keyRefused } from "./key";

/** The server did not respond. */
export const unreachable = (): Problem => new Problem(0, { code: "unreachable" });

interface Request {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as YAML. */
  yaml?: string;
  /** Sent as a form, for files. */
  form?: FormData;
  /** Sent as Idempotency-Key: repeated requests have one effect. */
  once?: string;
  signal?: AbortSignal;
}

/** A URL on the server that served the page, also below a path prefix. */
export function address(path: string): string {
  return new URL(path.replace(/^\//, ""), document.baseURI.replace(/[#?].*$/, "")).href;
}

export function headers(kind?: string): Record<string, string> {
  const key = currentKey();
  return { ...(kind ? { "Content-Type": kind } : {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

export async function requestJson<T>(path: string, request: Request = {}): Promise<T> {
  const answer = await send(path, request);
  if (answer.status === 204) return undefined as T;
  const text = await answer.text().catch((error: unknown) => {
    throw request.signal?.aborted ? error : unreachable(); // the connection broke after the headers
  });
  return JSON.parse(text) as T;
}

export async function requestText(path: string, request: Request = {}): Promise<string> {
  return (await send(path, request)).text();
}

/** The content of a file; a plain link could not send the key. */
export async function requestBlob(path: string, request: Request = {}): Promise<Blob> {
  return (await send(path, request)).blob();
}

/** Sends a request; throws unless the response is 2xx. */
export async function send(
  path: string,
  { method = "GET", json, yaml, form, once, signal }: Request,
): Promise<Response> {
  const kind = yaml !== undefined ? "application/yaml" : json !== undefined ? "application/json" : undefined;
  const body = form ?? yaml ?? (json === undefined ? undefined : JSON.stringify(json));
  const key = currentKey();
  const named = once === undefined ? headers(kind) : { ...headers(kind), "Idempotency-Key": once };
  let answer: Response;
  try {
    answer = await fetch(address(path), { method, headers: named, body, signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw unreachable();
  }
  if (answer.ok) return answer;
  if (answer.status === 401) keyRefused(key);
  throw await problemOf(answer);
}
