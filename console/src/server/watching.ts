import type { QueryClient } from "@tanstack/react-query";
import { address, headers } from "./ask";
import { sessions } from "./queries";
import type { Session } from "./types";

const WAIT = 30;
/** Between two answers, so that a run that speaks does not make a request of each word. */
const PAUSE = 1_000;
const SELDOM = 5_000;

/**
 * Keeps the list of sessions live: one request that the server answers when the list has changed. Until the signal.
 * Only the window that one works in waits like this: a browser has six connections for a server, and windows side by
 * side have to share them. The others ask now and then.
 */
export async function watchSessions(queries: QueryClient, signal: AbortSignal): Promise<void> {
  let tag: string | null = null;
  while (!signal.aborted) {
    const news = await look(tag, signal);
    if (news.sessions) queries.setQueryData(sessions.queryKey, news.sessions);
    tag = news.tag;
    await pause(tag === null || !document.hasFocus() ? SELDOM : PAUSE, signal);
  }
}

interface News {
  tag: string | null;
  sessions?: Session[];
}

async function look(tag: string | null, signal: AbortSignal): Promise<News> {
  const known: Record<string, string> = tag === null ? {} : { "If-None-Match": tag };
  const path = `/sessions?limit=100${tag !== null && document.hasFocus() ? `&wait=${WAIT}` : ""}`;
  const left = new AbortController();
  const leave = () => left.abort();
  window.addEventListener("blur", leave);
  try {
    const ended = AbortSignal.any([signal, left.signal]);
    const answer = await fetch(address(path), {
      headers: { ...headers(), ...known },
      signal: ended,
      cache: "no-store",
    });
    if (answer.status === 304) return { tag };
    if (!answer.ok) return { tag: null };
    const told = (await answer.json()) as { sessions: Session[] };
    return { tag: answer.headers.get("ETag"), sessions: told.sessions };
  } catch {
    return { tag: left.signal.aborted ? tag : null }; // the query itself shows that the server is away
  } finally {
    window.removeEventListener("blur", leave);
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
