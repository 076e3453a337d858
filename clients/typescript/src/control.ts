import type {
  AskedQuestion,
  StreamChunk,
  StreamError,
  StreamEvent,
  ToolcallRequest,
  ToolcallResult,
} from "./events.js";

/** What a front end has to do for an event. Empty: nothing. */
export interface StreamControl {
  readonly appendText?: string;
  readonly toolcallRequest?: ToolcallRequest;
  readonly toolcallResult?: ToolcallResult;
  /** The answer as data, if a graph ends with structured output. */
  readonly output?: unknown;
  /** Set if the text is a question: how it can be answered, and its id. */
  readonly question?: AskedQuestion & { readonly ask_id: string };
  readonly error?: StreamError;
}

/** Accepts an event, a chunk, or a line of JSON with either; any other string is text. */
export function streamControl(event: StreamEvent | StreamChunk | string): StreamControl {
  if (typeof event === "string") return ofString(event);
  return "payload" in event ? ofEvent(event) : ofChunk(event);
}

function ofEvent(event: StreamEvent): StreamControl {
  switch (event.type) {
    case "text_message": {
      const { text, ask_id, question } = event.payload;
      return { appendText: text, ...asked(ask_id, question) };
    }
    case "output":
      return { output: event.payload.data };
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
    case "output":
      return { output: chunk.data };
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
    const event: unknown = JSON.parse(text);
    if (isEvent(event)) return streamControl(event);
  } catch {
    // Not JSON: plain text.
  }
  return { appendText: text };
}

/** A model may itself write JSON with a `type`; only with one of these fields is it an event or a chunk. */
function isEvent(value: unknown): value is StreamEvent | StreamChunk {
  if (typeof value !== "object" || value === null || !("type" in value)) return false;
  return "level" in value || ("payload" in value && typeof value.payload === "object" && value.payload !== null);
}

function asked(askId: string | undefined, question: AskedQuestion | undefined): Pick<StreamControl, "question"> {
  return askId === undefined ? {} : { question: { kind: "question", ...question, ask_id: askId } };
}

/** An unknown type: a compile-time error, ignored at run time. */
function unknownType(_: never): StreamControl {
  return {};
}
