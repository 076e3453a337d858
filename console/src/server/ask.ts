import type { SpecProblem as Mistake } from "@stellwerk/client";
import { currentKey, keyRefused } from "./key";

export type { Mistake };

/** What the server answers when it will not or cannot: problem+json, as an error. */
export class Problem extends Error {
  override name = "Problem";
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly mistakes: readonly Mistake[] = [],
    /** What is to blame, where one thing is: `data.age`. */
    readonly field?: string,
  ) {
    super(detail);
  }
}

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
    throw request.signal?.aborted ? error : new Problem(0, "unreachable", ""); // the line broke behind its head
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
    throw new Problem(0, "unreachable", "");
  }
  if (answer.ok) return answer;
  if (answer.status === 401) keyRefused(key);
  throw problemOf(answer.status, await answer.text());
}

/** Whatever came back, also from a proxy that speaks no problem+json. */
export function problemOf(status: number, body: string): Problem {
  try {
    const told = JSON.parse(body) as { code?: string; detail?: string; problems?: Mistake[]; field?: string };
    return new Problem(status, told.code ?? "unknown", told.detail ?? "", told.problems ?? [], told.field);
  } catch {
    return new Problem(status, "unknown", body.trim().startsWith("<") ? "" : body.slice(0, 300));
  }
}
