/** The dialects `events` and `chunks`, as docs/reference/dialects.md tells them. */
import type { Asked, FileResult, JsonResult, TableResult, TextResult } from "./envelope.gen.js";

export type ToolResult = TableResult | TextResult | FileResult | JsonResult;

/** What there is to say of a question beside its text: how it may be answered; of an approval, also for what. */
export interface AskedQuestion extends Readonly<Omit<Asked, "ask_id" | "question">> {
  readonly kind: NonNullable<Asked["kind"]>;
}

export interface ToolcallRequest {
  readonly toolName: string;
  readonly toolCallId: string;
  readonly argsPreview?: string;
}

export interface ToolcallResult {
  readonly toolName: string;
  readonly toolCallId: string;
  readonly text?: string;
  readonly data?: ToolResult;
  readonly failed?: boolean;
}

export interface StreamError {
  readonly code: string;
  readonly message: string;
  /** It ended the run. */
  readonly fatal: boolean;
}

interface Told<Type extends string, Payload> {
  readonly type: Type;
  readonly payload: Payload;
  readonly id: string;
  readonly ts: number;
  readonly agent_name: string;
}

export type StreamEvent =
  | Told<"text_message", { readonly text: string; readonly ask_id?: string; readonly question?: AskedQuestion }>
  | Told<"toolcall_request", ToolcallRequest>
  | Told<"toolcall_result", ToolcallResult>
  | Told<"error", StreamError>;

interface ChunkFields {
  readonly id: string;
  readonly level: "outer_agent" | "inner_agent";
  readonly agent_name: string;
  readonly seq: number;
  readonly ts: number;
  readonly tool_name?: string;
  readonly toolcall_id?: string;
  readonly message_id?: string;
  readonly ask_id?: string;
  readonly question?: AskedQuestion;
  readonly failed?: boolean;
  readonly aborted?: boolean;
  readonly abortion_reason?: string;
}

export type StreamChunk = ChunkFields &
  (
    | { readonly type: "text_step" | "text_final" | "text_delta"; readonly data: string }
    | { readonly type: "tool_results"; readonly data: ToolResult }
    | { readonly type: "error"; readonly data: StreamError }
    | { readonly type: "aborted"; readonly data: { readonly reason: string } }
  );
