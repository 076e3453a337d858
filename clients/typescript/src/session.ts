/** A session as a front end shows it: the fold of its envelopes. Immutable. */

import { Chain } from "./chain.js";
import type { RunParameters } from "./client.js";
import { Dict } from "./dict.js";
import type { Failure, FilePart, Outcome, RunEnded, RunStarted, TextPart, ToolCallRef, Usage } from "./envelope.gen.js";
import type { ToolResult } from "./events.js";
import type { SessionStatus, Task } from "./responses.js";

export interface Session {
  /** The position of the last applied envelope. */
  readonly position: number;
  readonly status: SessionStatus;
  readonly awaitingUserInput: boolean;
  /** A stop was requested, and the run has not ended yet. */
  readonly stopping: boolean;
  readonly round: number;
  /** The run of the last round, running or ended. */
  readonly runId?: string;
  readonly lastActivity: number;
  readonly runs: readonly Run[];
  /** Messages, questions and answers, in order. */
  readonly entries: readonly Entry[];
  /** Messages that models are writing or have just written; `conversation` lists them after the entries. */
  readonly drafts: readonly MessageEntry[];
  /** Every call of a model, tool, agent or graph, by `call_id`. */
  readonly calls: Dict<Call>;
  readonly questions: readonly Question[];
  readonly checklist: Checklist;
  /** The current value of each named state (`plan`, `todos`, `files` …). */
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
  /** 1, plus one for each resume after a crash. */
  readonly attempt: number;
  readonly startedAt: number;
  readonly endedAt?: number;
  readonly startPosition: number;
  readonly endPosition?: number;
  readonly usage: readonly Usage[];
  readonly result?: string;
  readonly reason?: string;
  readonly code?: string;
  /** The run that regenerated this answer, or that of an earlier round, or whose message was edited. */
  readonly replacedBy?: string;
  /** The outermost calls, in order of their start. */
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
   * `streaming`: a model is writing it. `written`: the model is done, and the message is not confirmed yet.
   * `abandoned`: it was interrupted and does not count. `said`: it is a message. Until then its text is in the call:
   * read it with `textOf`.
   */
  readonly state: "streaming" | "written" | "abandoned" | "said";
  readonly status?: "first" | "step" | "last";
  readonly content?: readonly (TextPart | FilePart)[];
  readonly documents?: readonly string[];
  /** The answer as data, if a graph ended with structured output; the text is its JSON, or a text beside it. */
  readonly output?: unknown;
  readonly author?: string;
  /** Of a user's message to a graph: its further input, config and context. */
  readonly parameters?: RunParameters;
  /** The model call that wrote it, if one did. */
  readonly callId?: string;
}

export interface QuestionEntry extends EntryFields {
  readonly kind: "question";
  readonly askId: string;
  /** The id for its removal, like the `messageId` of a message. */
  readonly callId: string;
  readonly options?: readonly unknown[];
}

export interface AnswerEntry extends EntryFields {
  readonly kind: "answer";
  readonly askId: string;
  /** The id for its removal. */
  readonly callId: string;
  readonly data?: unknown;
  readonly refused: boolean;
}

export type Call = ModelCall | ToolCall;

interface CallFields {
  readonly id: string;
  /** The name of the model or tool. */
  readonly name: string;
  /** The parent call or run. */
  readonly parentId: string | null;
  readonly runId?: string;
  readonly agent?: string;
  readonly node?: string;
  /** Also `running` while it waits for the user's answer. */
  readonly state: "running" | "ok" | "error" | "abandoned";
  readonly startedAt: number;
  readonly endedAt?: number;
  /** Seconds. */
  readonly duration?: number;
  readonly startPosition: number;
  readonly endPosition?: number;
  /** Its child calls, in order of their start. */
  readonly children: readonly string[];
}

export interface ModelCall extends CallFields {
  readonly kind: "model";
  readonly messageId: string;
  readonly text: string;
  readonly reasoning: string;
  /** Tool calls that the model is writing, by `tool_call_id`. */
  readonly writing: Readonly<Record<string, WrittenCall>>;
  readonly usage?: Usage;
  readonly finishReason?: string;
  readonly toolCalls?: readonly ToolCallRef[];
}

export interface WrittenCall {
  readonly name: string;
  /** JSON, possibly incomplete. */
  readonly args: string;
}

export interface ToolCall extends CallFields {
  readonly kind: "tool" | "agent" | "graph";
  readonly toolCallId: string;
  readonly title?: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly input?: unknown;
  /** The call that a crash interrupted and that this one repeats. */
  readonly retryOf?: string;
  /** Text output while it runs. */
  readonly output: string;
  /** The last non-text update while it runs. */
  readonly data?: unknown;
  readonly result?: ToolResult;
  readonly error?: Failure;
  /** For an agent or a graph: its messages, files and tokens. */
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
  /** For an approval: the call to approve. */
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
  /** Odd: open. */
  readonly version: number;
}

export interface Checklist {
  readonly version: number;
  readonly tasks: readonly Task[];
  readonly notices: readonly Notice[];
  /** Changes dropped in favour of a concurrent one. */
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

/** The last progress report of a run. */
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
  /** Total run time of ended runs. */
  readonly seconds: number;
}

export interface ModelUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly calls: number;
}

export const EMPTY_CHECKLIST: Checklist = { version: 0, tasks: [], notices: [], lost: [], patches: {} };

/** A session without envelopes. */
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
