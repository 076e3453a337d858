/** The dialects `events` and `chunks`; see docs/reference/dialects.md. */
import type { Asked, FileResult, JsonResult, TableResult, TextResult } from "./envelope.gen.js";

export type ToolResult = TableResult | TextResult | FileResult | JsonResult;

/** A question without its text: how it can be answered; for an approval, also the tool call. */
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
  /** True if it ended the run. */
  readonly fatal: boolean;
}

interface EventOf<Type extends string, Payload> {
  readonly type: Type;
  readonly payload: Payload;
  readonly id: string;
  readonly ts: number;
  readonly agent_name: string;
}

export type StreamEvent =
  | EventOf<"text_message", { readonly text: string; readonly ask_id?: string; readonly question?: AskedQuestion }>
  /** The answer as data, behind its text, if a graph ends with structured output. */
  | EventOf<"output", { readonly data: unknown }>
  | EventOf<"toolcall_request", ToolcallRequest>
  | EventOf<"toolcall_result", ToolcallResult>
  | EventOf<"error", StreamError>;

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
    | { readonly type: "output"; readonly data: unknown }
    | { readonly type: "tool_results"; readonly data: ToolResult }
    | { readonly type: "error"; readonly data: StreamError }
    | { readonly type: "aborted"; readonly data: { readonly reason: string } }
  );
