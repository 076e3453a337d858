import { keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { LIVE } from "./queries";
import { requestJson } from "./request";
import type { Session } from "./types";

const MOST_AT_ONCE = 500;
const SELDOM = 30_000;

interface Older {
  sessions: readonly Session[];
  /** Whether there are older sessions. */
  more: boolean;
}

/**
 * Sessions older than the live list, which all windows share. Each window loads as many of them as its user asks for.
 */
export function useOlderSessions(live: readonly Session[]) {
  const [wanted, setWanted] = useState(0);
  const isFull = live.length >= LIVE;
  const query = useQuery({ ...older(cursor(live.at(-1)), wanted), enabled: isFull && wanted > 0 });
  const known = new Set(live.map(({ id }) => id));
  const { sessions = [], more = true } = query.data ?? {};
  return {
    sessions: isFull ? sessions.filter(({ id }) => !known.has(id)) : [],
    more: isFull && more,
    isReading: query.isLoading || query.isPlaceholderData,
    error: query.error,
    show: () => (query.error ? void query.refetch() : setWanted(wanted + LIVE)),
  };
}

/** The cursor after a session, in the format of a page's `next`. */
const cursor = (last?: Session) => (last ? `${last.last_activity_at}_${last.id}` : "");

const older = (than: string, wanted: number) =>
  queryOptions({
    queryKey: ["sessions", "older", than, wanted],
    queryFn: ({ signal }) => read(than, wanted, signal),
    placeholderData: keepPreviousData,
    refetchInterval: SELDOM,
  });

async function read(than: string, wanted: number, signal: AbortSignal): Promise<Older> {
  const found: Session[] = [];
  let before: string | null = than;
  while (before !== null && found.length < wanted) {
    const limit = Math.min(MOST_AT_ONCE, wanted - found.length);
    const search = new URLSearchParams({ limit: String(limit), before });
    const page: { sessions: Session[]; next: string | null } = await requestJson(`/sessions?${search}`, { signal });
    found.push(...page.sessions);
    before = page.next;
  }
  return { sessions: found, more: before !== null };
}
