import { address, ask, json, type Place, part, type Query } from "./place.js";
import type * as told from "./workflow_answers.js";

export interface NewWorkflow {
  readonly prompt: string;
  readonly listFileId?: readonly number[] | undefined;
  readonly agentSystemId?: string | undefined;
  readonly userId?: number | undefined;
}

export type WorkflowPage = {
  readonly limit?: number | undefined;
  readonly before?: string | undefined;
  /** `false`: only those that were started as workflows. */
  readonly chats?: boolean | undefined;
};

/** The routes below `/api/workflows`. */
export class Workflows {
  constructor(readonly place: Place = {}) {}

  list(page: WorkflowPage = {}): Promise<readonly told.WorkflowHead[]> {
    return this.#json("", page);
  }

  /** With the id of one that is there: its next round, or the answer that it waits for. */
  start(workflow: NewWorkflow, id?: string): Promise<told.WorkflowStarted> {
    const headers = { "Content-Type": "application/json" };
    return this.#json("/start", { id }, { method: "POST", body: JSON.stringify(workflow), headers });
  }

  get(id: string): Promise<told.Workflow> {
    return this.#json(`/${part(id)}`);
  }

  status(id: string): Promise<told.WorkflowStatus> {
    return this.#json(`/${part(id)}/status`);
  }

  /** `after`: only what follows the entry of this id. All of it, however many pages that are. */
  logs(id: string, after?: string): Promise<readonly told.WorkflowLog[]> {
    return this.#all(`/${part(id)}/logs`, after);
  }

  messages(id: string, after?: string): Promise<readonly told.WorkflowMessage[]> {
    return this.#all(`/${part(id)}/messages`, after);
  }

  stop(id: string): Promise<{ readonly id: string; readonly status: string }> {
    return this.#json(`/${part(id)}/stop`, {}, { method: "POST" });
  }

  async delete(id: string): Promise<void> {
    await this.#json(`/${part(id)}`, {}, { method: "DELETE" });
  }

  /** An answer with a `Link` is not the last page. */
  async #all<Item extends { readonly id: string }>(path: string, after?: string): Promise<readonly Item[]> {
    const found: Item[] = [];
    for (let more = true; more; ) {
      const answer = await this.#ask(path, { id: found.at(-1)?.id ?? after });
      found.push(...(await json<Item[]>(answer)));
      more = answer.headers.has("link");
    }
    return found;
  }

  async #json<Answer>(path: string, query?: Query, init?: RequestInit): Promise<Answer> {
    return json(await this.#ask(path, query, init));
  }

  async #ask(path: string, query: Query = {}, init: RequestInit = {}): Promise<Response> {
    return ask(this.place, address(this.place, `/api/workflows${path}`, query), init);
  }
}
