import { type StreamControl, streamControl } from "./control.js";
import type { StreamChunk, StreamError, StreamEvent, ToolcallRequest, ToolcallResult } from "./events.js";

export type ToolEvent =
  | { readonly type: "toolcall_request"; readonly payload: ToolcallRequest }
  | { readonly type: "toolcall_result"; readonly payload: ToolcallResult };

/** The fields of a chat message that `dispatch` reads and writes. */
export interface AiMessage {
  readonly id: string;
  readonly content: string;
  /** Tool calls and tool results, separate from the text. */
  readonly toolEvents?: readonly ToolEvent[];
  readonly question?: StreamControl["question"];
  readonly error?: StreamError;
}

/** Applies an event to the message `aiId`: appends text to its `content`, tool events to its `toolEvents`. */
export function dispatch<Message extends AiMessage>(
  messages: readonly Message[],
  aiId: string,
  event: StreamEvent | StreamChunk | string,
): Message[] {
  const control = streamControl(event);
  return messages.map((message) => (message.id === aiId ? { ...message, ...changes(message, control) } : message));
}

function changes(message: AiMessage, control: StreamControl): Partial<AiMessage> {
  const { appendText, toolcallRequest, toolcallResult, question, error } = control;
  return {
    ...(appendText === undefined ? {} : { content: message.content + appendText }),
    ...(toolcallRequest && kept(message, { type: "toolcall_request", payload: toolcallRequest })),
    ...(toolcallResult && kept(message, { type: "toolcall_result", payload: toolcallResult })),
    ...(question && { question }),
    ...(error && { error }),
  };
}

/** The chunks of a failed agent contain two results, an abort and an error; only the first is kept. */
function kept(message: AiMessage, event: ToolEvent): Partial<AiMessage> {
  const events = message.toolEvents ?? [];
  const count = (type: ToolEvent["type"]) =>
    events.filter((one) => one.type === type && one.payload.toolCallId === event.payload.toolCallId).length;
  if (event.type === "toolcall_result" && count("toolcall_result") >= count("toolcall_request")) return {};
  return { toolEvents: [...events, event] };
}
