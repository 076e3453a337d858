import type { RunParameters } from "./client.js";
import type * as api from "./job_responses.js";
import { address, type ClientOptions, json, type Query, request, segment } from "./request.js";

/** A schedule of five fields, and the message to a new session (`agent_system_id`) or to one that exists. */
export interface NewCron {
  readonly schedule: string;
  /** Such as `Europe/Berlin`; default: UTC. */
  readonly timezone?: string | undefined;
  readonly agent_system_id?: string | undefined;
  readonly session_id?: string | undefined;
  readonly user_id?: string | undefined;
  readonly message: RunParameters & {
    readonly text?: string | undefined;
    readonly documents?: readonly string[] | undefined;
    readonly if_busy?: "reject" | "enqueue" | "interrupt" | undefined;
    readonly webhook?: string | undefined;
  };
  readonly on_completion?: "keep" | "delete" | undefined;
  readonly enabled?: boolean | undefined;
}

export type DeliveryFilter = {
  readonly session_id?: string | undefined;
  readonly state?: api.WebhookDelivery["state"] | undefined;
};

/** Crons, delayed runs and webhooks. A message of `Client.send` has `after_seconds`, `start_at` and `webhook`. */
export class Jobs {
  constructor(readonly options: ClientOptions = {}) {}

  /** All crons of the tenant, the oldest first. */
  crons(): Promise<readonly api.Cron[]> {
    return this.#all("/crons", "crons", "after");
  }

  cron(id: string): Promise<api.Cron> {
    return this.#json("GET", `/crons/${segment(id)}`);
  }

  createCron(cron: NewCron): Promise<api.Cron> {
    return this.#json("POST", "/crons", cron);
  }

  /** Replaces it as a whole; `enabled: false` pauses it. */
  changeCron(id: string, cron: NewCron): Promise<api.Cron> {
    return this.#json("PUT", `/crons/${segment(id)}`, cron);
  }

  async deleteCron(id: string): Promise<void> {
    await this.#request("DELETE", `/crons/${segment(id)}`);
  }

  /** The next one first; `Client.stop` of its session withdraws one. */
  async delayedRuns(limit?: number): Promise<readonly api.DelayedRun[]> {
    const answer = await this.#request("GET", "/delayed-runs", undefined, { limit });
    return (await json<{ runs: api.DelayedRun[] }>(answer)).runs;
  }

  /** All reports of ends of runs, the newest first. */
  webhookDeliveries(filter: DeliveryFilter = {}): Promise<readonly api.WebhookDelivery[]> {
    return this.#all("/webhook-deliveries", "deliveries", "before", filter);
  }

  /** Attempts a failed delivery again. */
  async retryDelivery(id: string): Promise<void> {
    await this.#request("POST", `/webhook-deliveries/${segment(id)}/retry`);
  }

  /** Where the ends of runs are reported whose messages name no webhook; for admins. */
  async defaultWebhook(): Promise<string | null> {
    return (await this.#json<{ webhook: string | null }>("GET", "/default-webhook")).webhook;
  }

  /** `null` removes it. */
  async setDefaultWebhook(webhook: string | null): Promise<void> {
    await (webhook === null
      ? this.#request("DELETE", "/default-webhook")
      : this.#request("PUT", "/default-webhook", { webhook }));
  }

  async #all<Item>(path: string, name: string, cursor: string, query: Query = {}): Promise<readonly Item[]> {
    const found: Item[] = [];
    for (let next: string | null | undefined; next !== null; ) {
      const answer = await this.#request("GET", path, undefined, { ...query, limit: PAGE, [cursor]: next });
      const page = await json<Record<string, Item[]> & { next: string | null }>(answer);
      found.push(...(page[name] ?? []));
      next = page.next;
    }
    return found;
  }

  async #json<Body>(method: string, path: string, body?: unknown): Promise<Body> {
    return json(await this.#request(method, path, body));
  }

  #request(method: string, path: string, body?: unknown, query: Query = {}): Promise<Response> {
    const sent = body === undefined ? {} : { body: JSON.stringify(body), headers: JSON_BODY };
    return request(this.options, address(this.options, path, query), { method, ...sent });
  }
}

const PAGE = 100;
const JSON_BODY = { "Content-Type": "application/json" };
