import { Problem } from "@stellwerk/client";
import { infiniteQueryOptions, keepPreviousData, QueryClient, queryOptions } from "@tanstack/react-query";
import { requestJson, requestText } from "./request";
import type {
  CheckpointPage,
  GraphValues,
  ListedSystem,
  Me,
  NewState,
  Session,
  StateUpdated,
  System,
  Tool,
} from "./types";

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

/** Checkpoints per request. */
const CHECKPOINTS = 50;

const stateOf = (sid: string, what = "") => `/sessions/${encodeURIComponent(sid)}/state${what}`;

/** The state of a session's graph, now or at a checkpoint. `at`: the position in the log that it is read for. */
export const graphState = (sid: string, checkpoint: string | null, at: string) =>
  queryOptions({
    queryKey: ["graph-state", sid, checkpoint, at],
    queryFn: ({ signal }) => {
      const query = checkpoint === null ? "" : `?checkpoint_id=${encodeURIComponent(checkpoint)}`;
      return requestJson<GraphValues>(stateOf(sid, `/values${query}`), { signal });
    },
    placeholderData: keepPreviousData,
    gcTime: 10_000, // a state may be large
  });

/** The checkpoints of a session's graph, the newest first, page by page. */
export const graphHistory = (sid: string, at: string) =>
  infiniteQueryOptions({
    queryKey: ["graph-history", sid, at],
    queryFn: ({ signal, pageParam }) => {
      const before = pageParam === null ? "" : `&before=${encodeURIComponent(pageParam)}`;
      return requestJson<CheckpointPage>(stateOf(sid, `/history?limit=${CHECKPOINTS}${before}`), { signal });
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    placeholderData: keepPreviousData,
  });

export const changeState = (sid: string, change: NewState, once: string) =>
  requestJson<StateUpdated>(stateOf(sid), { method: "POST", json: change, once });

export const beginSession = (systemId: string) =>
  requestJson<Session>("/sessions", { method: "POST", json: { agent_system_id: systemId } });
export const checkSystem = (yaml: string, signal?: AbortSignal) =>
  requestJson<System>("/agent-systems?dry_run=true", { method: "POST", yaml, signal });
export const registerSystem = (yaml: string) =>
  requestJson<{ id: string; version: number; warnings: System["warnings"] }>("/agent-systems", {
    method: "POST",
    yaml,
  });
