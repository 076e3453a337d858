// Made by `npm run generate` from docs/reference/envelope.schema.json. Do not edit.

/** What every payload may say of itself: what was made harmless in it, and that its content was removed. */
export interface Noted {
  _sanitized?: string[];
  redacted?: boolean;
}

/** One event of a session. */
export interface EnvelopeOf<Type extends string, Payload> {
  /** The position in the session's log, and the only cursor. */
  position: number;
  /** `replay`: it was committed before you connected. */
  origin: "replay" | "live";
  session_id: string;
  type: Type;
  ts: number;
  trace_id?: string;
  run_id?: string;
  parent_id: string | null;
  call_id: string;
  seq: number;
  agent?: string;
  payload: Payload;
}

export interface RunStarted extends Noted {
  round: number;
  trigger: "answer" | "message" | "regenerate" | "stop";
  system: string;
  system_version: number;
  message_id?: string;
  ask_ids?: string[];
  replaces?: string;
  start_at?: number;
}
export interface RunEnded extends Noted {
  status: "awaiting_user" | "completed" | "failed" | "stopped";
  usage?: Usage[];
  result?: string;
  reason?: string;
  code?: string;
}
/** Tokens of one model, as the provider counted them. */
export interface Usage extends Noted {
  model: string;
  input_tokens?: number;
  output_tokens?: number;
}
/** A message, whole. It appears once, when it is finished. */
export interface Said extends Noted {
  message_id: string;
  role: "assistant" | "system" | "tool" | "user";
  content: (TextPart | FilePart)[];
  status: "first" | "last" | "step";
  parent_message_id?: string;
  documents?: string[];
  author?: string;
  started_at?: number;
  action?: "added" | "removed";
  input?: unknown;
  config?: Record<string, unknown>;
  context?: Record<string, unknown>;
  output?: unknown;
}
export interface TextPart extends Noted {
  type: "text";
  text: string;
}
export interface FilePart extends Noted {
  type: "file";
  document_id: string;
  filename: string;
  mime: string;
}
export interface ModelCalled extends Noted {
  model: string;
  message_id: string;
  params?: Record<string, unknown>;
  node?: string;
  messages?: unknown[];
  draft?: boolean;
}
export interface Token extends Noted {
  text: string;
  kind?: "reasoning" | "text";
  block?: number;
  logprob?: number;
}
export interface ModelEnded extends Noted {
  message_id: string;
  status: "abandoned" | "error" | "ok";
  usage?: Usage;
  finish_reason?: string;
  tool_calls?: ToolCallRef[];
  synthesized?: boolean;
}
export interface ToolCallRef extends Noted {
  name: string;
  tool_call_id: string;
  args?: Record<string, unknown>;
}
export interface ToolCalled extends Noted {
  tool_name: string;
  tool_call_id: string;
  args?: Record<string, unknown>;
  input?: unknown;
  node?: string;
  kind?: "agent" | "graph" | "tool";
  title?: string;
  meta?: unknown;
  retry_of?: string;
  idempotent?: boolean;
}
export interface ToolUpdated extends Noted {
  phase: "args" | "output";
  text?: string;
  data?: unknown;
  tool_call_id?: string;
  tool_name?: string;
}
export interface ToolEnded extends Noted {
  tool_name: string;
  tool_call_id: string;
  status: "abandoned" | "error" | "ok";
  result?: TableResult | TextResult | FileResult | JsonResult;
  error?: Failure;
  duration?: number;
  outcome?: Outcome;
  synthesized?: boolean;
  written_by_node?: boolean;
}
/** Build one with ``table``: it makes every row as long as the header. */
export interface TableResult {
  kind: "table";
  columns: (string | Column)[];
  rows: unknown[][];
  total?: number;
}
export interface Column {
  name: string;
  type?: string;
}
export interface TextResult {
  kind: "text";
  text: string;
}
export interface FileResult {
  kind: "file_ref";
  document_id: string;
  filename: string;
  mime: string;
  size: number;
  preview?: string;
}
export interface JsonResult {
  kind: "json";
  data: unknown;
}
export interface Failure extends Noted {
  message: string;
  code?: string;
  class?: string;
}
/** What a sub-agent or sub-graph leaves behind, in one shape for all of them. */
export interface Outcome extends Noted {
  messages?: unknown[];
  files?: Record<string, unknown>;
  usage?: Usage[];
}
export interface Checkpointed extends Noted {
  checkpoint_id: string;
  node: string;
  state_digest: string;
}
export interface Resumed extends Noted {
  checkpoint_id: string;
  node: string;
  attempt: number;
}
export interface Asked extends Noted {
  ask_id: string;
  question: string;
  kind?: "approval" | "elicitation" | "question";
  schema?: unknown;
  options?: unknown[];
  default?: unknown;
  tool_call_id?: string;
  tool_name?: string;
  args?: unknown;
  data?: unknown;
  interrupt_id?: string;
}
export interface Answered extends Noted {
  ask_id: string;
  text?: string;
  data?: unknown;
  refused?: boolean;
}
export interface StateChanged extends Noted {
  name: string;
  version: number;
  snapshot?: unknown;
  patch?: unknown[];
  owner?: string;
  node?: string;
}
export interface Updated extends Noted {
  node: string;
  delta: unknown;
  namespace?: string[];
  by?: "user";
  no_calls?: boolean;
}
export interface Filed extends Noted {
  document_id: string;
  name: string;
  mime: string;
  size: number;
  digest: string;
  ext?: string;
  action?: "added" | "removed";
  message_id?: string;
}
export interface Logged extends Noted {
  message: string;
  level?: "error" | "info" | "warning";
  progress?: number;
  status?: string;
  data?: unknown;
}
export interface StopAsked extends Noted {
  by: string;
  reason?: string;
}
/** Something went wrong. A stack trace is for the operator's log, never for here. */
export interface Trouble extends Noted {
  code: string;
  message: string;
  retryable?: boolean;
  fatal?: boolean;
  name?: string;
  class?: string;
  detail?: string;
}

export type RunStartEnvelope = EnvelopeOf<"run_start", RunStarted>;
export type RunEndEnvelope = EnvelopeOf<"run_end", RunEnded>;
export type MessageEnvelope = EnvelopeOf<"message", Said>;
export type LlmStartEnvelope = EnvelopeOf<"llm_start", ModelCalled>;
export type LlmTokenEnvelope = EnvelopeOf<"llm_token", Token>;
export type LlmEndEnvelope = EnvelopeOf<"llm_end", ModelEnded>;
export type ToolStartEnvelope = EnvelopeOf<"tool_start", ToolCalled>;
export type ToolUpdateEnvelope = EnvelopeOf<"tool_update", ToolUpdated>;
export type ToolEndEnvelope = EnvelopeOf<"tool_end", ToolEnded>;
export type SubgraphCheckpointEnvelope = EnvelopeOf<"subgraph_checkpoint", Checkpointed>;
export type SubgraphResumeEnvelope = EnvelopeOf<"subgraph_resume", Resumed>;
export type AskUserEnvelope = EnvelopeOf<"ask_user", Asked>;
export type UserAnswerEnvelope = EnvelopeOf<"user_answer", Answered>;
export type StateEnvelope = EnvelopeOf<"state", StateChanged>;
export type UpdateEnvelope = EnvelopeOf<"update", Updated>;
export type DocumentEnvelope = EnvelopeOf<"document", Filed>;
export type LogEnvelope = EnvelopeOf<"log", Logged>;
export type StopRequestEnvelope = EnvelopeOf<"stop_request", StopAsked>;
export type WarningEnvelope = EnvelopeOf<"warning", Trouble>;
export type ErrorEnvelope = EnvelopeOf<"error", Trouble>;

export type Envelope =
  | RunStartEnvelope
  | RunEndEnvelope
  | MessageEnvelope
  | LlmStartEnvelope
  | LlmTokenEnvelope
  | LlmEndEnvelope
  | ToolStartEnvelope
  | ToolUpdateEnvelope
  | ToolEndEnvelope
  | SubgraphCheckpointEnvelope
  | SubgraphResumeEnvelope
  | AskUserEnvelope
  | UserAnswerEnvelope
  | StateEnvelope
  | UpdateEnvelope
  | DocumentEnvelope
  | LogEnvelope
  | StopRequestEnvelope
  | WarningEnvelope
  | ErrorEnvelope;
