import type { QueryClient } from "@tanstack/react-query";
import { address, headers } from "./ask";
import { currentKey, keyRefused } from "./key";
import { pause, within } from "./pause";
import { LIVE, sessions } from "./queries";
import type { Session } from "./types";

const WAIT = 30;
/** Between two answers, so that a run that speaks does not make a request of each word. */
const PAUSE = 1_000;
const SELDOM = 5_000;
/** A server that has not answered by then stands still. */
const PATIENCE = 1_000 * (WAIT + 10);

/**
 * Keeps the list of sessions live, until the signal, or until the key is refused: one request that the server answers when the list has changed.
 * Windows with the same key share it, as a browser has six connections for a server: one of them waits, and tells the
 * others. Of windows with different keys, too, only one waits, and others ask now and then. Where the browser knows no locks, only the window that one works in waits, and others ask now and then.
 */
export async function watchSessions(queries: QueryClient, signal: AbortSignal): Promise<void> {
  const show = (found: Session[]) => queries.setQueryData(sessions.queryKey, found);
  if (!("locks" in navigator)) return watch(show, signal, () => document.hasFocus());
  const name = `stellwerk sessions ${await digest(currentKey() ?? "")}`;
  if (signal.aborted) return;
  const others = new BroadcastChannel(name);
  others.onmessage = ({ data }: MessageEvent<Session[]>) => show(data);
  const tell = (found: Session[]) => {
    show(found);
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

/** Asks now and then until it is this window's turn to wait. */
async function watchInTurn(tell: (found: Session[]) => void, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  const ended = AbortSignal.any([signal, over.signal]);
  let mayWait = false;
  const turn = navigator.locks.request("stellwerk list", { signal: ended }, () => {
    mayWait = true;
    return new Promise<void>((leave) => ended.addEventListener("abort", () => leave()));
  });
  turn.catch(() => {}); // it was over before its turn
  try {
    await watch(tell, signal, () => mayWait);
  } finally {
    over.abort();
  }
}

/** A name for those who know the key, which tells it to nobody else. */
async function digest(key: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key)));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A key that is refused ends it: another one begins it anew. */
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
    return { tag: left.signal.aborted ? tag : null }; // the query itself shows that the server is away
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
  const told = (await answer.json()) as { sessions: Session[] };
  return { tag: answer.headers.get("ETag"), sessions: told.sessions };
}
