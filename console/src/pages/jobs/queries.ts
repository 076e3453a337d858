import type { Cron, DelayedRun, WebhookDelivery } from "@stellwerk/client";
import { queryOptions } from "@tanstack/react-query";
import { requestJson } from "../../server/request";

/** Entries of each list. */
const SHOWN = 100;
/** Jobs run without a reader: the lists are read again while the page is open. */
const refetchInterval = 5_000;

export const crons = queryOptions({
  queryKey: ["crons"],
  queryFn: async ({ signal }) => (await requestJson<{ crons: Cron[] }>(`/crons?limit=${SHOWN}`, { signal })).crons,
  refetchInterval,
});

export const delayedRuns = queryOptions({
  queryKey: ["delayed-runs"],
  queryFn: async ({ signal }) =>
    (await requestJson<{ runs: DelayedRun[] }>(`/delayed-runs?limit=${SHOWN}`, { signal })).runs,
  refetchInterval,
});

export const deliveries = queryOptions({
  queryKey: ["webhook-deliveries"],
  queryFn: async ({ signal }) =>
    (await requestJson<{ deliveries: WebhookDelivery[] }>(`/webhook-deliveries?limit=${SHOWN}`, { signal })).deliveries,
  refetchInterval,
});

/** Pauses a cron, or lets it run again. */
export function enable(cron: Cron, enabled: boolean): Promise<Cron> {
  const { id, schedule, timezone, agent_system_id, session_id, user_id, message, on_completion } = cron;
  const target = session_id === null ? { agent_system_id, user_id } : { session_id };
  const json = { schedule, timezone, ...target, message, on_completion, enabled };
  return requestJson(`/crons/${encodeURIComponent(id)}`, { method: "PUT", json });
}

export const retry = (delivery: WebhookDelivery) =>
  requestJson<void>(`/webhook-deliveries/${encodeURIComponent(delivery.id)}/retry`, { method: "POST" });
