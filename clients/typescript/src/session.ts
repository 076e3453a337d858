/** What a session is to whoever shows it: the fold of its envelopes. Everything in it is immutable. */
import type { Standing, Task } from "./answers.js";
import { Chain } from "./chain.js";
import { Dict } from "./dict.js";
import type { Failure, FilePart, Outcome, RunEnded, RunStarted, TextPart, ToolCallRef, Usage } from "./envelope.gen.js";
import type { ToolResult } from "./events.js";

export interface Session {
  /** Of the last envelope that is in it. */
  readonly position: number;
  readonly status: Standing;
  readonly awaitingUserInput: boolean;
  /** Somebody asked to stop, and the run has not ended yet. */
  readonly stopping: boolean;
  readonly round: number;
  /** The run of the last round, running or over. */
  readonly runId?: string;
  readonly lastActivity: number;
  readonly runs: readonly Run[];
  /** Messages, questions and answers, in their order. */
  readonly entries: readonly Entry[];
  /** Messages that a model writes, or has written and not said yet; they stand below the entries: `conversation`. */
  readonly drafts: readonly MessageEntry[];
  /** Every model, tool, agent and graph that was called, by `call_id`. */
  readonly calls: Dict<Call>;
  readonly questions: readonly Question[];
  readonly checklist: Checklist;
  /** Named parts of the state (`plan`, `todos`, `files` …), as they are now. */
  readonly states: Readonly<Record<string, NamedState>>;
  readonly documents: readonly SessionDocument[];
  readonly progress: Progress;
  readonly logs: Chain<LogLine>;
  readonly problems: readonly SessionProblem[];
  readonly usage: SessionUsage;
}

export interface Run {
  readonly id: string;
  readonly traceId?: string;
  readonly round: number;
  readonly trigger: RunStarted["trigger"];
  readonly system: string;
  readonly systemVersion: number;
  readonly messageId?: string;
  readonly status: "running" | RunEnded["status"];
  /** 1, and more after a crash from which it went on. */
  readonly attempt: number;
  readonly startedAt: number;
  readonly endedAt?: number;
  readonly startPosition: number;
  readonly endPosition?: number;
  readonly usage: readonly Usage[];
  readonly result?: string;
  readonly reason?: string;
  readonly code?: string;
  /** The run that answers the same message anew. */
  readonly replacedBy?: string;
  /** The outermost calls, in the order in which they began. */
  readonly calls: readonly string[];
}

export type Entry = MessageEntry | QuestionEntry | AnswerEntry;

interface EntryFields {
  readonly position: number;
  readonly role: string;
  readonly text: string;
  readonly agent?: string;
  readonly runId?: string;
  readonly ts: number;
}

export interface MessageEntry extends EntryFields {
  readonly kind: "message";
  readonly messageId: string;
  /**
   * `streaming`: a model writes it. `written`: the model is done, and nobody knows yet whether it is a message.
   * `abandoned`: it was cut off, and does not count. `said`: it is a message. The text is in the call until it is said:
   * read it with `textOf`.
   */
  readonly state: "streaming" | "written" | "abandoned" | "said";
  readonly status?: "first" | "step" | "last";
  readonly content?: readonly (TextPart | FilePart)[];
  readonly documents?: readonly string[];
  readonly author?: string;
  /** The model call that wrote it, where one did. */
  readonly callId?: string;
}

export interface QuestionEntry extends EntryFields {
  readonly kind: "question";
  readonly askId: string;
  /** By this id it is removed, as a message by its `messageId`. */
  readonly callId: string;
  readonly options?: readonly unknown[];
}

export interface AnswerEntry extends EntryFields {
  readonly kind: "answer";
  readonly askId: string;
  /** By this id it is removed. */
  readonly callId: string;
  readonly data?: unknown;
  readonly refused: boolean;
}

export type Call = ModelCall | ToolCall;

interface CallFields {
  readonly id: string;
  /** A model or a tool. */
  readonly name: string;
  /** A call, or a run. */
  readonly parentId: string | null;
  readonly runId?: string;
  readonly agent?: string;
  readonly node?: string;
  /** `running` also while it waits for the user's answer. */
  readonly state: "running" | "ok" | "error" | "abandoned";
  readonly startedAt: number;
  readonly endedAt?: number;
  /** Seconds. */
  readonly duration?: number;
  readonly startPosition: number;
  readonly endPosition?: number;
  /** The calls inside it, in the order in which they began. */
  readonly children: readonly string[];
}

export interface ModelCall extends CallFields {
  readonly kind: "model";
  readonly messageId: string;
  readonly text: string;
  readonly reasoning: string;
  /** Calls of tools as the model writes them, by `tool_call_id`. */
  readonly writing: Readonly<Record<string, WrittenCall>>;
  readonly usage?: Usage;
  readonly finishReason?: string;
  readonly toolCalls?: readonly ToolCallRef[];
}

export interface WrittenCall {
  readonly name: string;
  /** JSON, as far as it is written. */
  readonly args: string;
}

export interface ToolCall extends CallFields {
  readonly kind: "tool" | "agent" | "graph";
  readonly toolCallId: string;
  readonly title?: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly input?: unknown;
  /** Of the call that a crash cut off, and that this one repeats. */
  readonly retryOf?: string;
  /** What it wrote while it worked. */
  readonly output: string;
  /** The last that it told while it worked, if that was no text. */
  readonly data?: unknown;
  readonly result?: ToolResult;
  readonly error?: Failure;
  /** Of an agent or a graph: its messages, files and tokens. */
  readonly outcome?: Outcome;
}

export interface Question {
  readonly askId: string;
  readonly question: string;
  readonly kind: "approval" | "elicitation" | "question";
  /** `closed`: the run ended without an answer. */
  readonly state: "open" | "answered" | "refused" | "closed";
  readonly schema?: unknown;
  readonly options?: readonly unknown[];
  readonly default?: unknown;
  readonly toolName?: string;
  /** Of an approval: the call that is to be approved. */
  readonly toolCallId?: string;
  readonly args?: unknown;
  readonly data?: unknown;
  readonly agent?: string;
  readonly runId?: string;
  /** The call that asks. */
  readonly callId: string | null;
  readonly askedAt: number;
  readonly position: number;
  readonly answer?: { readonly text?: string; readonly data?: unknown; readonly ts: number };
}

export interface Notice {
  readonly kind: "blocker" | "question";
  readonly text: string;
  /** Open while it is odd. */
  readonly version: number;
}

export interface Checklist {
  readonly version: number;
  readonly tasks: readonly Task[];
  readonly notices: readonly Notice[];
  /** Changes that lost against another one made at the same time. */
  readonly lost: readonly Task[];
  readonly patches: Readonly<Record<string, number>>;
}

export interface NamedState {
  readonly version: number;
  readonly value: unknown;
  readonly owner?: string;
  readonly position: number;
}

export interface SessionDocument {
  readonly documentId: string;
  readonly name: string;
  readonly mime: string;
  readonly size: number;
  readonly addedAt: number;
  readonly runId?: string;
  readonly agent?: string;
}

/** The last word that a run said about how far it is. */
export interface Progress {
  readonly percent?: number;
  readonly message?: string;
  readonly level: "info" | "warning" | "error";
  readonly agent?: string;
  readonly ts?: number;
}

export interface LogLine extends Progress {
  readonly message: string;
  readonly status?: string;
  readonly data?: unknown;
  readonly runId?: string;
  readonly position: number;
  readonly ts: number;
}

export interface SessionProblem {
  readonly level: "warning" | "error";
  readonly code: string;
  readonly message: string;
  readonly fatal: boolean;
  readonly retryable: boolean;
  readonly agent?: string;
  readonly runId?: string;
  readonly callId: string;
  readonly position: number;
  readonly ts: number;
}

export interface SessionUsage {
  readonly models: Readonly<Record<string, ModelUsage>>;
  readonly modelCalls: number;
  readonly toolCalls: number;
  readonly runs: number;
  /** In which a run was under way, those that have ended. */
  readonly seconds: number;
}

export interface ModelUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly calls: number;
}

export const EMPTY_CHECKLIST: Checklist = { version: 0, tasks: [], notices: [], lost: [], patches: {} };

/** A session in which nothing has happened yet. */
export const EMPTY: Session = {
  position: 0,
  status: "idle",
  awaitingUserInput: false,
  stopping: false,
  round: 0,
  lastActivity: 0,
  runs: [],
  entries: [],
  drafts: [],
  calls: Dict.empty(),
  questions: [],
  checklist: EMPTY_CHECKLIST,
  states: {},
  documents: [],
  progress: { level: "info" },
  logs: Chain.empty(),
  problems: [],
  usage: { models: {}, modelCalls: 0, toolCalls: 0, runs: 0, seconds: 0 },
};
