import { Problem, problemOf } from "@stellwerk/client";
import { currentKey, keyRefused } from "./key";

/** Nobody answered. */
export const unreachable = (): Problem => new Problem(0, { code: "unreachable" });

interface Request {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as YAML. */
  yaml?: string;
  /** Sent as a form, for files. */
  form?: FormData;
  /** Sent as Idempotency-Key: however often it is sent, it is done once. */
  once?: string;
  signal?: AbortSignal;
}

/** The server is where the page came from, also below a prefix. */
export function address(path: string): string {
  return new URL(path.replace(/^\//, ""), document.baseURI.replace(/[#?].*$/, "")).href;
}

export function headers(kind?: string): Record<string, string> {
  const key = currentKey();
  return { ...(kind ? { "Content-Type": kind } : {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

export async function ask<T>(path: string, request: Request = {}): Promise<T> {
  const answer = await send(path, request);
  if (answer.status === 204) return undefined as T;
  const text = await answer.text().catch((error: unknown) => {
    throw request.signal?.aborted ? error : unreachable(); // the line broke behind its head
  });
  return JSON.parse(text) as T;
}

export async function askText(path: string, request: Request = {}): Promise<string> {
  return (await send(path, request)).text();
}

/** The bytes of a file: a link could not carry the key. */
export async function askBlob(path: string, request: Request = {}): Promise<Blob> {
  return (await send(path, request)).blob();
}

/** The answer as it came, if it is a good one. */
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
