import { type StreamControl, streamControl } from "./control.js";
import type { StreamChunk, StreamError, StreamEvent, ToolcallRequest, ToolcallResult } from "./events.js";

export type ToolEvent =
  | { readonly type: "toolcall_request"; readonly payload: ToolcallRequest }
  | { readonly type: "toolcall_result"; readonly payload: ToolcallResult };

/** A message of a chat, as far as the dispatcher knows it. */
export interface AiMessage {
  readonly id: string;
  readonly content: string;
  /** What its tools were asked and gave back, apart from the text. */
  readonly toolEvents?: readonly ToolEvent[];
  readonly question?: StreamControl["question"];
  readonly error?: StreamError;
}

/** The messages after an event: text is appended to the content of `aiId`, tool events are kept as its `toolEvents`. */
export function dispatch<Message extends AiMessage>(
  messages: readonly Message[],
  aiId: string,
  told: StreamEvent | StreamChunk | string,
): Message[] {
  const control = streamControl(told);
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

/** An agent that failed is told twice among the chunks, as cut off and with its result: the first is its result. */
function kept(message: AiMessage, event: ToolEvent): Partial<AiMessage> {
  const events = message.toolEvents ?? [];
  const told = (type: ToolEvent["type"]) =>
    events.filter((one) => one.type === type && one.payload.toolCallId === event.payload.toolCallId).length;
  if (event.type === "toolcall_result" && told("toolcall_result") >= told("toolcall_request")) return {};
  return { toolEvents: [...events, event] };
}
