import { type FollowOptions, follow } from "./follow.js";
import { type InvokeOptions, invokeAgent, type StreamAgentRequest } from "./invoke.js";
import { Jobs } from "./jobs.js";
import { address, anySignal, type ClientOptions, json, type Query, request, segment } from "./request.js";
import type * as api from "./responses.js";
import { Workflows } from "./workflows.js";

export type Profile = "user" | "debug";

/** For graphs; `GET /agent-systems/{id}` has their schemas. */
export interface RunParameters {
  readonly input?: unknown;
  readonly config?: Readonly<Record<string, unknown>> | undefined;
  readonly context?: Readonly<Record<string, unknown>> | undefined;
}

export interface NewMessage extends RunParameters {
  /** May be empty if there are documents or input. */
  readonly text: string;
  readonly documents?: readonly string[] | undefined;
  readonly if_busy?: "reject" | "enqueue" | "interrupt" | undefined;
  /** An id of your own; the same one with the same content is the same request. */
  readonly message_id?: string | undefined;
  /** A run: this takes the place of its message, and later rounds are replaced as well. */
  readonly replaces?: string | undefined;
  /** Its run starts later: in so many seconds, or at a time in seconds since 1970. */
  readonly after_seconds?: number | undefined;
  readonly start_at?: number | undefined;
  /** The end of its run is reported to this address. */
  readonly webhook?: string | undefined;
}

/** For graphs, by their schemas. */
export interface SessionDefaults {
  readonly config?: Readonly<Record<string, unknown>> | null | undefined;
  readonly context?: Readonly<Record<string, unknown>> | null | undefined;
}

/** A change of the graph's state, as if a node had returned these values. */
export interface NewState {
  readonly values: unknown;
  /** Default: the node that ran last. */
  readonly as_node?: string | undefined;
  /** Where to go back to first. Default: the latest. */
  readonly checkpoint_id?: string | undefined;
}

export interface NewAnswer {
  readonly text?: string | undefined;
  readonly data?: unknown;
  readonly ask_id?: string | undefined;
  readonly refused?: boolean | undefined;
  readonly documents?: readonly string[] | undefined;
}

type Page = { limit?: number | undefined };
type CallOptions<Options extends ClientOptions> = Omit<Options, "url" | "key" | "fetch">;

/** The routes of a server. Every method throws a `Problem` on an error response. */
export class Client {
  readonly workflows: Workflows;
  readonly jobs: Jobs;

  constructor(readonly options: ClientOptions = {}) {
    this.workflows = new Workflows(options);
    this.jobs = new Jobs(options);
  }

  me(): Promise<api.Me> {
    return this.#get("/me");
  }

  sessions(page: Page & { before?: string | undefined } = {}): Promise<api.SessionPage> {
    return this.#get("/sessions", page);
  }

  session(sid: string): Promise<api.SessionHead> {
    return this.#get(`/sessions/${segment(sid)}`);
  }

  /** `defaults` are config and context of its messages, key by key, unless they have their own. */
  createSession(agentSystemId: string, userId?: string, defaults: SessionDefaults = {}): Promise<api.SessionHead> {
    return this.#send("POST", "/sessions", { agent_system_id: agentSystemId, user_id: userId, ...defaults });
  }

  /** Replaces the config or context of its messages from now on; `null` removes it. */
  changeSession(sid: string, defaults: SessionDefaults): Promise<api.SessionHead> {
    return this.#send("PATCH", `/sessions/${segment(sid)}`, defaults);
  }

  async deleteSession(sid: string): Promise<void> {
    await this.#request(`/sessions/${segment(sid)}`, { method: "DELETE" });
  }

  /** With an idempotency `key`, sending twice starts one run. */
  send(sid: string, message: NewMessage, key?: string): Promise<api.Accepted> {
    return this.#send("POST", `/sessions/${segment(sid)}/messages`, message, key);
  }

  answer(sid: string, answer: NewAnswer, key?: string): Promise<api.Accepted> {
    return this.#send("POST", `/sessions/${segment(sid)}/answers`, answer, key);
  }

  stop(sid: string, reason?: string): Promise<api.Stopped> {
    return this.#send("POST", `/sessions/${segment(sid)}/stop`, { reason });
  }

  /** Takes an enqueued message back before its round starts. */
  withdraw(sid: string, messageId: string): Promise<api.Withdrawn> {
    return this.#json(`/sessions/${segment(sid)}/inbox/${segment(messageId)}`, { method: "DELETE" });
  }

  /** Answers the message of a run once more. Default: of the last round. */
  regenerate(sid: string, runId?: string): Promise<api.Accepted> {
    const path = `/sessions/${segment(sid)}/regenerate`;
    return runId === undefined ? this.#json(path, { method: "POST" }) : this.#send("POST", path, { run_id: runId });
  }

  /** Copies the session up to this end of a run into a new session. Default: the last run. */
  fork(sid: string, position?: number): Promise<api.SessionHead> {
    return this.#send("POST", `/sessions/${segment(sid)}/fork`, { position });
  }

  state(sid: string): Promise<api.SessionState> {
    return this.#get(`/sessions/${segment(sid)}/state`);
  }

  /** The state of the session's graph, now or at a checkpoint. */
  graphState(sid: string, checkpointId?: string, signal?: AbortSignal): Promise<api.GraphValues> {
    return this.#get(`/sessions/${segment(sid)}/state/values`, { checkpoint_id: checkpointId }, signal);
  }

  /** The checkpoints of the session's graph, the newest first. */
  graphHistory(sid: string, page: Page & { before?: string | undefined } = {}): Promise<api.CheckpointPage> {
    return this.#get(`/sessions/${segment(sid)}/state/history`, page);
  }

  /** Changes the state of the session's graph, as LangGraph's `update_state`. */
  updateGraphState(sid: string, change: NewState, key?: string): Promise<api.StateUpdated> {
    return this.#send("POST", `/sessions/${segment(sid)}/state`, change, key);
  }

  transcript(sid: string, page: Page & { after?: number | undefined } = {}): Promise<api.Transcript> {
    return this.#get(`/sessions/${segment(sid)}/messages`, page);
  }

  events(
    sid: string,
    page: Page & { after?: number | undefined; wait?: number | undefined; profile?: Profile | undefined } = {},
    signal?: AbortSignal,
  ): Promise<api.EventPage> {
    return this.#get(`/sessions/${segment(sid)}/events`, page, signal);
  }

  async artifacts(sid: string): Promise<readonly api.Artifact[]> {
    const { artifacts } = await this.#get<{ artifacts: api.Artifact[] }>(`/sessions/${segment(sid)}/artifacts`);
    return artifacts;
  }

  follow(sid: string, options: CallOptions<FollowOptions> = {}): ReturnType<typeof follow> {
    return follow(sid, { ...this.options, ...options, signal: anySignal(options.signal, this.options.signal) });
  }

  invokeAgent(request: StreamAgentRequest, options: CallOptions<InvokeOptions>): ReturnType<typeof invokeAgent> {
    return invokeAgent(request, {
      ...this.options,
      ...options,
      signal: anySignal(options.signal, this.options.signal),
    });
  }

  upload(file: Blob, name?: string): Promise<api.StoredFile> {
    const form = new FormData();
    form.append("file", file, name ?? (file instanceof File ? file.name : "file"));
    return this.#json("/files", { method: "POST", body: form });
  }

  /** The content of a file, by the `href` of an upload or an artifact, or by `/files/{id}`. */
  async download(href: string): Promise<Blob> {
    return (await this.#request(href)).blob();
  }

  async deleteFile(fileId: string): Promise<void> {
    await this.#request(`/files/${segment(fileId)}`, { method: "DELETE" });
  }

  systems(page: Page & { after?: string | undefined } = {}): Promise<api.SystemPage> {
    return this.#get("/agent-systems", page);
  }

  system(id: string, version?: number): Promise<api.ResolvedSystem> {
    return this.#get(`/agent-systems/${segment(id)}`, { version });
  }

  /** Errors in the YAML are in `problems` of the `Problem`. */
  registerSystem(yaml: string): Promise<api.RegisteredSystem> {
    return this.#json("/agent-systems", { method: "POST", body: yaml, headers: YAML });
  }

  checkSystem(yaml: string): Promise<api.ResolvedSystem> {
    return this.#json("/agent-systems?dry_run=true", { method: "POST", body: yaml, headers: YAML });
  }

  async deleteSystem(id: string): Promise<void> {
    await this.#request(`/agent-systems/${segment(id)}`, { method: "DELETE" });
  }

  async tools(): Promise<readonly api.Tool[]> {
    return (await this.#get<{ tools: api.Tool[] }>("/tools")).tools;
  }

  async #request(path: string, init?: RequestInit, query?: Query): Promise<Response> {
    return request(this.options, address(this.options, path, query), init);
  }

  async #json<Body>(path: string, init?: RequestInit): Promise<Body> {
    return json(await this.#request(path, init));
  }

  async #get<Body>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Body> {
    return json(await this.#request(path, signal && { signal }, query));
  }

  #send<Body>(method: string, path: string, body: unknown, key?: string): Promise<Body> {
    const headers = { "Content-Type": "application/json", ...(key === undefined ? {} : { "Idempotency-Key": key }) };
    return this.#json(path, { method, body: JSON.stringify(body), headers });
  }
}

const YAML = { "Content-Type": "application/yaml" };
