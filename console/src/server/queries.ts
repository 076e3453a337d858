import { Problem } from "@stellwerk/client";
import { QueryClient, queryOptions } from "@tanstack/react-query";
import { ask, askText } from "./ask";
import type { ListedSystem, Me, Session, System, Tool } from "./types";

/**
 * A problem is an answer: asking again gives the same one. Only a server that is away is asked again. It may be on
 * this machine: whether there is a network says nothing about it.
 */
export function makeQueryClient(): QueryClient {
  const retry = (count: number, error: Error) => error instanceof Problem && error.status === 0 && count < 3;
  const networkMode = "always";
  return new QueryClient({
    defaultOptions: { queries: { retry, networkMode, staleTime: 2_000 }, mutations: { networkMode } },
  });
}

/** How many sessions are kept live. */
export const LIVE = 100;

export const sessions = queryOptions({
  queryKey: ["sessions"],
  queryFn: async ({ signal }) => (await ask<{ sessions: Session[] }>(`/sessions?limit=${LIVE}`, { signal })).sessions,
});

export const me = queryOptions({
  queryKey: ["me"],
  queryFn: ({ signal }) => ask<Me>("/me", { signal }),
  staleTime: Number.POSITIVE_INFINITY, // another key resets it
});

export const session = (id: string) =>
  queryOptions({
    queryKey: ["session", id],
    queryFn: ({ signal }) => ask<Session>(`/sessions/${encodeURIComponent(id)}`, { signal }),
  });

export const systems = queryOptions({
  queryKey: ["systems"],
  queryFn: async ({ signal }) =>
    (await ask<{ agent_systems: ListedSystem[] }>("/agent-systems?limit=200", { signal })).agent_systems,
});

export const system = (id: string) =>
  queryOptions({
    queryKey: ["system", id],
    queryFn: ({ signal }) => ask<System>(`/agent-systems/${encodeURIComponent(id)}`, { signal }),
  });

export const systemText = (id: string) =>
  queryOptions({
    queryKey: ["system-text", id],
    queryFn: ({ signal }) => askText(`/agent-systems/${encodeURIComponent(id)}/text`, { signal }),
  });

export const tools = queryOptions({
  queryKey: ["tools"],
  queryFn: async ({ signal }) => (await ask<{ tools: Tool[] }>("/tools", { signal })).tools,
});

export const beginSession = (systemId: string) =>
  ask<Session>("/sessions", { method: "POST", json: { agent_system_id: systemId } });
export const checkSystem = (yaml: string, signal?: AbortSignal) =>
  ask<System>("/agent-systems?dry_run=true", { method: "POST", yaml, signal });
export const registerSystem = (yaml: string) =>
  ask<{ id: string; version: number; warnings: System["warnings"] }>("/agent-systems", { method: "POST", yaml });
