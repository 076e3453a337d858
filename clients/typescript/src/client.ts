import type * as told from "./answers.js";
import { type FollowOptions, follow } from "./follow.js";
import { type InvokeOptions, invokeAgent, type StreamAgentRequest } from "./invoke.js";
import { address, ask, either, json, type Place, part, type Query } from "./place.js";
import { Workflows } from "./workflows.js";

export type Profile = "user" | "debug";

export interface NewMessage {
  readonly text: string;
  readonly documents?: readonly string[] | undefined;
  readonly if_busy?: "reject" | "enqueue" | "interrupt" | undefined;
}

export interface NewAnswer {
  readonly text?: string | undefined;
  readonly data?: unknown;
  readonly ask_id?: string | undefined;
  readonly refused?: boolean | undefined;
  readonly documents?: readonly string[] | undefined;
}

type Page = { limit?: number | undefined };
type Wishes<Options extends Place> = Omit<Options, "url" | "key" | "fetch">;

/** The routes of a server. Every method throws a `Problem` if the server refuses. */
export class Client {
  readonly workflows: Workflows;

  constructor(readonly place: Place = {}) {
    this.workflows = new Workflows(place);
  }

  me(): Promise<told.Me> {
    return this.#get("/me");
  }

  sessions(page: Page & { before?: string | undefined } = {}): Promise<told.SessionPage> {
    return this.#get("/sessions", page);
  }

  session(sid: string): Promise<told.SessionHead> {
    return this.#get(`/sessions/${part(sid)}`);
  }

  createSession(agentSystemId: string, userId?: string): Promise<told.SessionHead> {
    return this.#send("POST", "/sessions", { agent_system_id: agentSystemId, user_id: userId });
  }

  async deleteSession(sid: string): Promise<void> {
    await this.#ask(`/sessions/${part(sid)}`, { method: "DELETE" });
  }

  /** With a `key` of your own, sending it twice starts one run. */
  send(sid: string, message: NewMessage, key?: string): Promise<told.Accepted> {
    return this.#send("POST", `/sessions/${part(sid)}/messages`, message, key);
  }

  answer(sid: string, answer: NewAnswer, key?: string): Promise<told.Accepted> {
    return this.#send("POST", `/sessions/${part(sid)}/answers`, answer, key);
  }

  stop(sid: string, reason?: string): Promise<told.Stopped> {
    return this.#send("POST", `/sessions/${part(sid)}/stop`, { reason });
  }

  regenerate(sid: string): Promise<told.Accepted> {
    return this.#json(`/sessions/${part(sid)}/regenerate`, { method: "POST" });
  }

  /** Another session with all that was said up to this end of a run; without a position, up to the last one. */
  fork(sid: string, position?: number): Promise<told.SessionHead> {
    return this.#send("POST", `/sessions/${part(sid)}/fork`, { position });
  }

  state(sid: string): Promise<told.SessionState> {
    return this.#get(`/sessions/${part(sid)}/state`);
  }

  transcript(sid: string, page: Page & { after?: number | undefined } = {}): Promise<told.Transcript> {
    return this.#get(`/sessions/${part(sid)}/messages`, page);
  }

  events(
    sid: string,
    page: Page & { after?: number | undefined; wait?: number | undefined; profile?: Profile | undefined } = {},
    signal?: AbortSignal,
  ): Promise<told.EventPage> {
    return this.#get(`/sessions/${part(sid)}/events`, page, signal);
  }

  async artifacts(sid: string): Promise<readonly told.Artifact[]> {
    const { artifacts } = await this.#get<{ artifacts: told.Artifact[] }>(`/sessions/${part(sid)}/artifacts`);
    return artifacts;
  }

  follow(sid: string, options: Wishes<FollowOptions> = {}): ReturnType<typeof follow> {
    return follow(sid, { ...this.place, ...options, signal: either(options.signal, this.place.signal) });
  }

  invokeAgent(request: StreamAgentRequest, options: Wishes<InvokeOptions>): ReturnType<typeof invokeAgent> {
    return invokeAgent(request, { ...this.place, ...options, signal: either(options.signal, this.place.signal) });
  }

  upload(file: Blob, name?: string): Promise<told.StoredFile> {
    const form = new FormData();
    form.append("file", file, name ?? (file instanceof File ? file.name : "file"));
    return this.#json("/files", { method: "POST", body: form });
  }

  /** The bytes of a file, by the `href` of an upload or an artifact; or by `/files/{id}`. */
  async download(href: string): Promise<Blob> {
    return (await this.#ask(href)).blob();
  }

  async deleteFile(fileId: string): Promise<void> {
    await this.#ask(`/files/${part(fileId)}`, { method: "DELETE" });
  }

  systems(page: Page & { after?: string | undefined } = {}): Promise<told.SystemPage> {
    return this.#get("/agent-systems", page);
  }

  system(id: string, version?: number): Promise<told.ResolvedSystem> {
    return this.#get(`/agent-systems/${part(id)}`, { version });
  }

  /** What is wrong with the text is in the `problems` of the `Problem`. */
  registerSystem(yaml: string): Promise<told.RegisteredSystem> {
    return this.#json("/agent-systems", { method: "POST", body: yaml, headers: YAML });
  }

  checkSystem(yaml: string): Promise<told.ResolvedSystem> {
    return this.#json("/agent-systems?dry_run=true", { method: "POST", body: yaml, headers: YAML });
  }

  async deleteSystem(id: string): Promise<void> {
    await this.#ask(`/agent-systems/${part(id)}`, { method: "DELETE" });
  }

  async tools(): Promise<readonly told.Tool[]> {
    return (await this.#get<{ tools: told.Tool[] }>("/tools")).tools;
  }

  async #ask(path: string, init?: RequestInit, query?: Query): Promise<Response> {
    return ask(this.place, address(this.place, path, query), init);
  }

  async #json<Answer>(path: string, init?: RequestInit): Promise<Answer> {
    return json(await this.#ask(path, init));
  }

  async #get<Answer>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Answer> {
    return json(await this.#ask(path, signal && { signal }, query));
  }

  #send<Answer>(method: string, path: string, body: unknown, key?: string): Promise<Answer> {
    const headers = { "Content-Type": "application/json", ...(key === undefined ? {} : { "Idempotency-Key": key }) };
    return this.#json(path, { method, body: JSON.stringify(body), headers });
  }
}

const YAML = { "Content-Type": "application/yaml" };
