/** Response bodies of the routes; see docs/reference/http.md and workflows.md. */
import type { Envelope, FilePart, TextPart } from "./envelope.gen.js";

export type SessionStatus = "idle" | "running" | "completed" | "stopped" | "failed";

export interface SessionHead {
  readonly id: string;
  readonly sid: string;
  readonly agent_system_id: string;
  /** The beginning of the first message, in one line. */
  readonly title: string | null;
  readonly user_id?: string;
  readonly created_at: number;
  /** The time of the last event, or of creation; lists are sorted by it. */
  readonly last_activity_at: number;
  readonly position: number;
  readonly status: SessionStatus;
  readonly round: number;
  readonly awaiting_user_input: boolean;
  /** When its run starts, if that is still to come. */
  readonly start_at?: number;
  /** For its messages, unless they have their own; not in lists. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly context?: Readonly<Record<string, unknown>>;
}

export interface SessionPage {
  readonly sessions: readonly SessionHead[];
  readonly next: string | null;
}

export interface Accepted {
  readonly round: number;
  readonly run_id: string;
  readonly message_id?: string;
  readonly ask_id?: string;
  readonly position: number;
  /** The cursor from which a stream shows the whole run. */
  readonly after: number;
  readonly status: "accepted" | "enqueued" | "noted";
  /** The run that an enqueued message will start; `run_id` is the one under way. */
  readonly queued_run_id?: string;
  /** When the run starts, if later. */
  readonly start_at?: number;
  readonly open_asks?: readonly string[];
  /** Enqueued messages withdrawn because this one interrupted a round. */
  readonly withdrawn?: readonly Withdrawn[];
}

/** An enqueued message withdrawn by a stop: it starts no run and can be sent again. */
export interface Withdrawn {
  readonly message_id: string;
  readonly text: string;
  readonly documents: readonly FilePart[];
  readonly input?: unknown;
  readonly config?: Readonly<Record<string, unknown>>;
  readonly context?: Readonly<Record<string, unknown>>;
}

export interface Stopped {
  readonly status: SessionStatus;
  readonly round: number;
  readonly run_id: string | null;
  readonly position: number;
  readonly withdrawn?: readonly Withdrawn[];
}

export interface TranscriptEntry {
  readonly position: number;
  readonly kind: "message" | "question" | "answer";
  readonly role: string;
  readonly text: string;
  readonly content?: readonly (TextPart | FilePart)[];
  readonly message_id?: string;
  readonly status?: "first" | "step" | "last";
  readonly ask_id?: string;
  readonly options?: readonly unknown[];
  readonly data?: unknown;
  readonly refused?: boolean;
  readonly documents?: readonly string[];
  readonly agent?: string;
  readonly author?: string;
  readonly run_id?: string;
  readonly ts: number;
}

export interface Transcript {
  readonly messages: readonly TranscriptEntry[];
  readonly next: number | null;
}

export interface EventPage {
  readonly events: readonly Envelope[];
  readonly next: number;
}

export interface Task {
  readonly id: string;
  readonly title: string;
  readonly owner: string;
  readonly creator: string;
  readonly status: "pending" | "blocked" | "in_progress" | "skipped" | "completed";
  readonly note: string;
  readonly depends_on: readonly string[];
  readonly version: number;
}

export interface OpenQuestion {
  readonly ask_id: string;
  readonly question: string;
  readonly kind: "approval" | "elicitation" | "question";
  readonly agent?: string;
  readonly schema?: unknown;
  readonly options?: readonly unknown[];
  readonly default?: unknown;
  readonly tool_name?: string;
  readonly args?: unknown;
  readonly asked_at: number;
}

export interface UsageInfo {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly model_calls: number;
  readonly tool_calls: number;
  readonly runs: number;
  readonly seconds: number;
  readonly models: readonly {
    readonly model: string;
    readonly input_tokens: number;
    readonly output_tokens: number;
    readonly calls: number;
  }[];
}

export interface ProgressInfo {
  readonly percent: number | null;
  readonly message: string | null;
  readonly tasks_over: number;
  readonly tasks: number;
}

export interface SessionState {
  readonly status: SessionStatus;
  readonly round: number;
  readonly run_id: string | null;
  readonly awaiting_user_input: boolean;
  readonly questions: readonly OpenQuestion[];
  readonly version: number;
  readonly tasks: readonly Task[];
  readonly blocker: string | null;
  readonly open_questions: readonly string[];
  readonly progress: ProgressInfo;
  readonly usage: UsageInfo;
  readonly last_activity: number;
  readonly position: number;
}

/** The state of a session's graph at a checkpoint; before the first one it is empty. */
export interface GraphValues {
  /** By the keys of the graph, with its reducers applied. */
  readonly values: unknown;
  /** The nodes that would run next. */
  readonly next: readonly string[];
  readonly tasks: readonly GraphTask[];
  readonly checkpoint_id: string | null;
  readonly parent_checkpoint_id: string | null;
  readonly created_at: number | null;
  readonly source: string | null;
  readonly step: number | null;
  /** Changes that were made to show the values as JSON. */
  readonly sanitized?: readonly string[];
}

/** A node of the next step; with interrupts if it waits for an answer. */
export interface GraphTask {
  readonly id: string;
  readonly name: string;
  readonly interrupts: readonly { readonly id: string; readonly value: unknown }[];
  /** The class of the exception with which it failed. */
  readonly error?: string;
}

export interface CheckpointInfo {
  readonly checkpoint_id: string;
  readonly parent_checkpoint_id: string | null;
  readonly created_at: number;
  /** input, loop (a step of the graph), update or fork. */
  readonly source: string;
  readonly step: number;
  readonly next: readonly string[];
  readonly node: string | null;
  readonly run_id: string | null;
  readonly position: number | null;
}

export interface CheckpointPage {
  readonly checkpoints: readonly CheckpointInfo[];
  /** The `before` of the next page. */
  readonly next: string | null;
}

export interface StateUpdated {
  readonly checkpoint_id: string;
  readonly position: number;
  /** The nodes that run when the open question is answered. */
  readonly next: readonly string[];
}

export interface Artifact {
  readonly kind: "todolist" | "document";
  readonly name: string;
  readonly mime: string;
  readonly href: string;
  readonly size?: number;
  readonly document_id?: string;
  readonly created_at?: number;
  readonly run_id?: string | null;
  readonly agent?: string | null;
}

export interface StoredFile {
  readonly id: string;
  /** The number used by workflows. */
  readonly fileId: number;
  readonly filename: string;
  readonly mime: string;
  readonly size: number;
  readonly created_at: number;
  readonly href: string;
}

/** An error or a warning in an agent system, with its location. */
export interface SpecProblem {
  readonly file: string;
  readonly line: number | null;
  readonly column: number | null;
  readonly field: string;
  readonly message: string;
}

export interface SystemHead {
  readonly id: string;
  readonly version: number;
  readonly created_at: number;
  readonly updated_at: number;
  readonly description: string;
  /** Why no message can be sent to it: its graph cannot be imported or built. */
  readonly unusable?: string;
  /** The graph that gets the messages, if it is one of the operator's. */
  readonly graph?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface SystemPage {
  readonly agent_systems: readonly SystemHead[];
  readonly next: string | null;
}

export interface PublishedAgent {
  readonly id: string;
  readonly role: string;
  readonly kind: string;
  readonly description: string;
  readonly graph?: string;
  readonly input_schema?: Readonly<Record<string, unknown>>;
  /** Whether the text of a message has a place in the input, and under which key. */
  readonly takes_text?: boolean;
  readonly text_key?: string;
  readonly output_schema?: Readonly<Record<string, unknown>>;
  readonly state_schema?: Readonly<Record<string, unknown>>;
  /** Keys of the state that combine an update with what they have. */
  readonly reducers?: readonly string[];
  readonly context_schema?: Readonly<Record<string, unknown>>;
  readonly config_schema?: Readonly<Record<string, unknown>>;
  readonly nodes?: readonly string[];
  readonly model?: { readonly provider: string; readonly model: string; readonly [setting: string]: unknown };
  readonly tools?: readonly string[];
  readonly agents?: readonly {
    readonly id: string;
    readonly allowed_tools?: readonly string[];
    readonly mission_override?: string;
  }[];
  readonly config?: Readonly<Record<string, unknown>>;
  readonly context?: Readonly<Record<string, unknown>>;
  readonly input?: Readonly<Record<string, unknown>>;
}

export interface ResolvedSystem {
  readonly id: string;
  readonly description: string;
  readonly orchestrator: string;
  readonly agents: readonly PublishedAgent[];
  readonly tools: readonly string[];
  readonly models: readonly string[];
  readonly default_model: Readonly<Record<string, unknown>>;
  readonly storage: Readonly<Record<string, unknown>>;
  readonly coalescing_window: number | null;
  readonly store_prompts: boolean;
  readonly quotas: Readonly<Record<string, unknown>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly version: number | null;
  readonly versions: readonly number[];
  readonly created_at: number | null;
  readonly warnings: readonly SpecProblem[];
  readonly problems: readonly SpecProblem[];
}

export interface RegisteredSystem {
  readonly id: string;
  readonly version: number;
  readonly warnings: readonly SpecProblem[];
}

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly input_schema: Readonly<Record<string, unknown>>;
  readonly output: string | null;
  readonly timeout: number | null;
  readonly idempotent: boolean;
  readonly effects: "read" | "write" | "external";
  readonly untrusted: boolean;
  readonly runs_in: "loop" | "thread" | "process";
  readonly aliases: readonly string[];
}

export type Scope = "read" | "run" | "register" | "administer" | "metrics";

/** The authenticated principal and its scopes. */
export interface Me {
  readonly tenant: string;
  readonly user: string | null;
  readonly role: "reader" | "member" | "admin";
  readonly scopes: readonly Scope[];
}
