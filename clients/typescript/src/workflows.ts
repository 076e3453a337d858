import { address, type ClientOptions, json, type Query, request, segment } from "./request.js";
import type * as api from "./workflow_responses.js";

export interface NewWorkflow {
  readonly prompt: string;
  readonly listFileId?: readonly number[] | undefined;
  readonly agentSystemId?: string | undefined;
  readonly userId?: number | undefined;
}

export type WorkflowPage = {
  readonly limit?: number | undefined;
  readonly before?: string | undefined;
  /** `false`: only sessions that were started as workflows. */
  readonly chats?: boolean | undefined;
};

/** The routes below `/api/workflows`. */
export class Workflows {
  constructor(readonly options: ClientOptions = {}) {}

  list(page: WorkflowPage = {}): Promise<readonly api.WorkflowHead[]> {
    return this.#json("", page);
  }

  /** With the id of an existing workflow: starts its next round, or answers its open question. */
  start(workflow: NewWorkflow, id?: string): Promise<api.WorkflowStarted> {
    const headers = { "Content-Type": "application/json" };
    return this.#json("/start", { id }, { method: "POST", body: JSON.stringify(workflow), headers });
  }

  get(id: string): Promise<api.Workflow> {
    return this.#json(`/${segment(id)}`);
  }

  status(id: string): Promise<api.WorkflowStatus> {
    return this.#json(`/${segment(id)}/status`);
  }

  /** All log entries, across pages. `after`: only entries after this id. */
  logs(id: string, after?: string): Promise<readonly api.WorkflowLog[]> {
    return this.#all(`/${segment(id)}/logs`, after);
  }

  messages(id: string, after?: string): Promise<readonly api.WorkflowMessage[]> {
    return this.#all(`/${segment(id)}/messages`, after);
  }

  stop(id: string): Promise<{ readonly id: string; readonly status: string }> {
    return this.#json(`/${segment(id)}/stop`, {}, { method: "POST" });
  }

  async delete(id: string): Promise<void> {
    await this.#json(`/${segment(id)}`, {}, { method: "DELETE" });
  }

  /** A response with a `Link` header is not the last page. */
  async #all<Item extends { readonly id: string }>(path: string, after?: string): Promise<readonly Item[]> {
    const found: Item[] = [];
    for (let more = true; more; ) {
      const answer = await this.#request(path, { id: found.at(-1)?.id ?? after });
      found.push(...(await json<Item[]>(answer)));
      more = answer.headers.has("link");
    }
    return found;
  }

  async #json<Body>(path: string, query?: Query, init?: RequestInit): Promise<Body> {
    return json(await this.#request(path, query, init));
  }

  async #request(path: string, query: Query = {}, init: RequestInit = {}): Promise<Response> {
    return request(this.options, address(this.options, `/api/workflows${path}`, query), init);
  }
}
