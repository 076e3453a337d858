import type { QueryClient } from "@tanstack/react-query";
import { currentKey, keyRefused } from "./key";
import { LIVE, sessions } from "./queries";
import { address, headers } from "./request";
import { pause, within } from "./timeouts";
import type { Session } from "./types";

const WAIT = 30;
/** Minimum time between two requests, so that a busy session does not cause one per token. */
const PAUSE = 1_000;
const SELDOM = 5_000;
/** A server that has not responded by then counts as hanging. */
const PATIENCE = 1_000 * (WAIT + 10);

/**
 * Keeps the session list live until the signal aborts or the key is rejected: one long-polling request.
 * Windows with the same key share it, because a browser allows six connections per server: one window polls and sends the
 * result to the others. Among windows with different keys only one long-polls too; the others poll now and then. Without the Web Locks API only the focused window long-polls.
 */
export async function watchSessions(queries: QueryClient, signal: AbortSignal): Promise<void> {
  const show = (found: Session[]) => showList(queries, found);
  if (!("locks" in navigator)) return watch(show, signal, () => document.hasFocus());
  const name = `stellwerk sessions ${await digest(currentKey() ?? "")}`;
  if (signal.aborted) return;
  const others = new BroadcastChannel(name);
  others.onmessage = ({ data }: MessageEvent<Session[]>) => void show(data);
  const tell = (found: Session[]) => {
    void show(found);
    others.postMessage(found);
  };
  try {
    await navigator.locks.request(name, { signal }, () => watchInTurn(tell, signal));
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    others.close();
  }
}

/**
 * Shows a list. A pending request of the query is cancelled first: its older response would replace this list, and the
 * server, asked with this list's ETag, would respond that nothing has changed.
 */
export async function showList(queries: QueryClient, found: Session[]): Promise<void> {
  await queries.cancelQueries({ queryKey: sessions.queryKey, exact: true });
  queries.setQueryData(sessions.queryKey, found);
}

/** Polls now and then until this window may long-poll. */
async function watchInTurn(tell: (found: Session[]) => void, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  const ended = AbortSignal.any([signal, over.signal]);
  let mayWait = false;
  const turn = navigator.locks.request("stellwerk list", { signal: ended }, () => {
    mayWait = true;
    return new Promise<void>((leave) => ended.addEventListener("abort", () => leave()));
  });
  turn.catch(() => {}); // aborted before its turn
  try {
    await watch(tell, signal, () => mayWait);
  } finally {
    over.abort();
  }
}

/** A channel name derived from the key that does not reveal it. */
async function digest(key: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key)));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A rejected key ends the polling; a new key restarts it. */
async function watch(show: (found: Session[]) => void, signal: AbortSignal, mayWait: () => boolean): Promise<void> {
  let tag: string | null = null;
  while (!signal.aborted) {
    const news = await look(tag, signal, mayWait);
    if (news === "refused") return;
    if (news.sessions && !signal.aborted) show(news.sessions);
    tag = news.tag;
    await pause(tag === null || !mayWait() ? SELDOM : PAUSE, signal);
  }
}

interface News {
  tag: string | null;
  sessions?: Session[];
}

async function look(tag: string | null, signal: AbortSignal, mayWait: () => boolean): Promise<News | "refused"> {
  const path = `/sessions?limit=${LIVE}${tag !== null && mayWait() ? `&wait=${WAIT}` : ""}`;
  const key = currentKey();
  const left = new AbortController();
  const leave = () => !mayWait() && left.abort();
  window.addEventListener("blur", leave);
  try {
    const news = await within(PATIENCE, (ended) => heard(path, tag, ended), AbortSignal.any([signal, left.signal]));
    if (news === "refused") keyRefused(key);
    return news;
  } catch {
    return { tag: left.signal.aborted ? tag : null }; // the query itself shows that the server is unreachable
  } finally {
    window.removeEventListener("blur", leave);
  }
}

async function heard(path: string, tag: string | null, signal: AbortSignal): Promise<News | "refused"> {
  const known: Record<string, string> = tag === null ? {} : { "If-None-Match": tag };
  const answer = await fetch(address(path), { headers: { ...headers(), ...known }, signal, cache: "no-store" });
  if (answer.status === 304) return { tag };
  if (answer.status === 401) return "refused";
  if (!answer.ok) return { tag: null };
  const body = (await answer.json()) as { sessions: Session[] };
  return { tag: answer.headers.get("ETag"), sessions: body.sessions };
}
