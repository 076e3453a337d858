import { Problem } from "@stellwerk/client";
import { QueryClient, queryOptions } from "@tanstack/react-query";
import { requestJson, requestText } from "./request";
import type { ListedSystem, Me, Session, System, Tool } from "./types";

/**
 * A `Problem` is final and not retried; only an unreachable server is. The server may be local, so the browser's
 * network state is ignored.
 */
export function makeQueryClient(): QueryClient {
  const retry = (count: number, error: Error) => error instanceof Problem && error.status === 0 && count < 3;
  const networkMode = "always";
  return new QueryClient({
    defaultOptions: { queries: { retry, networkMode, staleTime: 2_000 }, mutations: { networkMode } },
  });
}

/** Number of sessions in the live list. */
export const LIVE = 100;

export const sessions = queryOptions({
  queryKey: ["sessions"],
  queryFn: async ({ signal }) =>
    (await requestJson<{ sessions: Session[] }>(`/sessions?limit=${LIVE}`, { signal })).sessions,
});

export const me = queryOptions({
  queryKey: ["me"],
  queryFn: ({ signal }) => requestJson<Me>("/me", { signal }),
  staleTime: Number.POSITIVE_INFINITY, // reset by a change of the key
});

export const session = (id: string) =>
  queryOptions({
    queryKey: ["session", id],
    queryFn: ({ signal }) => requestJson<Session>(`/sessions/${encodeURIComponent(id)}`, { signal }),
  });

export const systems = queryOptions({
  queryKey: ["systems"],
  queryFn: async ({ signal }) =>
    (await requestJson<{ agent_systems: ListedSystem[] }>("/agent-systems?limit=200", { signal })).agent_systems,
});

export const system = (id: string) =>
  queryOptions({
    queryKey: ["system", id],
    queryFn: ({ signal }) => requestJson<System>(`/agent-systems/${encodeURIComponent(id)}`, { signal }),
  });

export const systemText = (id: string) =>
  queryOptions({
    queryKey: ["system-text", id],
    queryFn: ({ signal }) => requestText(`/agent-systems/${encodeURIComponent(id)}/text`, { signal }),
  });

export const tools = queryOptions({
  queryKey: ["tools"],
  queryFn: async ({ signal }) => (await requestJson<{ tools: Tool[] }>("/tools", { signal })).tools,
});

export const beginSession = (systemId: string) =>
  requestJson<Session>("/sessions", { method: "POST", json: { agent_system_id: systemId } });
export const checkSystem = (yaml: string, signal?: AbortSignal) =>
  requestJson<System>("/agent-systems?dry_run=true", { method: "POST", yaml, signal });
export const registerSystem = (yaml: string) =>
  requestJson<{ id: string; version: number; warnings: System["warnings"] }>("/agent-systems", {
    method: "POST",
    yaml,
  });
