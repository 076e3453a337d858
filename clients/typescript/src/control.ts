import type {
  AskedQuestion,
  StreamChunk,
  StreamError,
  StreamEvent,
  ToolcallRequest,
  ToolcallResult,
} from "./events.js";

/** What a front end has to do for an event; nothing, if it is empty. */
export interface StreamControl {
  readonly appendText?: string;
  readonly toolcallRequest?: ToolcallRequest;
  readonly toolcallResult?: ToolcallResult;
  /** The text is a question: how it may be answered, and under which id. */
  readonly question?: AskedQuestion & { readonly ask_id: string };
  readonly error?: StreamError;
}

/** Takes an event, a chunk, or one of these as its line of JSON; any other string is text. */
export function streamControl(told: StreamEvent | StreamChunk | string): StreamControl {
  if (typeof told === "string") return ofString(told);
  return "payload" in told ? ofEvent(told) : ofChunk(told);
}

function ofEvent(event: StreamEvent): StreamControl {
  switch (event.type) {
    case "text_message": {
      const { text, ask_id, question } = event.payload;
      return { appendText: text, ...asked(ask_id, question) };
    }
    case "toolcall_request":
      return { toolcallRequest: event.payload };
    case "toolcall_result":
      return { toolcallResult: event.payload };
    case "error":
      return { error: event.payload };
    default:
      return unknownType(event);
  }
}

function ofChunk(chunk: StreamChunk): StreamControl {
  const { tool_name: toolName, toolcall_id: toolCallId } = chunk;
  switch (chunk.type) {
    case "text_step":
      if (chunk.ask_id !== undefined) return { appendText: chunk.data, ...asked(chunk.ask_id, chunk.question) };
      if (toolName === undefined || toolCallId === undefined) return {};
      return chunk.data === `[${chunk.level}] CALLING TOOL: ${toolName}`
        ? { toolcallRequest: { toolName, toolCallId } }
        : {};
    case "text_final":
      return chunk.level === "outer_agent" ? { appendText: chunk.data } : {};
    case "tool_results": {
      const failed = chunk.failed ? { failed: true } : {};
      const result = chunk.data.kind === "text" ? { text: chunk.data.text } : { data: chunk.data };
      return { toolcallResult: { toolName: toolName ?? "", toolCallId: toolCallId ?? "", ...result, ...failed } };
    }
    case "error":
      return { error: chunk.data };
    case "aborted":
      if (chunk.message_id !== undefined) return {};
      if (toolName !== undefined && toolCallId !== undefined) {
        return { toolcallResult: { toolName, toolCallId, text: chunk.data.reason, failed: true } };
      }
      return { error: { code: "stopped", message: chunk.data.reason, fatal: true } };
    case "text_delta":
      return {};
    default:
      return unknownType(chunk);
  }
}

function ofString(text: string): StreamControl {
  try {
    const told: unknown = JSON.parse(text);
    if (isTold(told)) return streamControl(told);
  } catch {
    // Text, as it has always been.
  }
  return { appendText: text };
}

/** A model may well write JSON, and that with a `type`: only with one of these beside it is it a line of ours. */
function isTold(value: unknown): value is StreamEvent | StreamChunk {
  if (typeof value !== "object" || value === null || !("type" in value)) return false;
  return "level" in value || ("payload" in value && typeof value.payload === "object" && value.payload !== null);
}

function asked(askId: string | undefined, question: AskedQuestion | undefined): Pick<StreamControl, "question"> {
  return askId === undefined ? {} : { question: { kind: "question", ...question, ask_id: askId } };
}

/** A type that this version does not know: an error for whoever compiles, nothing for whoever runs. */
function unknownType(_: never): StreamControl {
  return {};
}
