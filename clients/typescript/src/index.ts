export { Chain } from "./chain.js";
export {
  Client,
  type NewAnswer,
  type NewMessage,
  type NewState,
  type Profile,
  type RunParameters,
  type SessionDefaults,
} from "./client.js";
export { type StreamControl, streamControl } from "./control.js";
export { Dict } from "./dict.js";
export { type AiMessage, dispatch, type ToolEvent } from "./dispatch.js";
export type * from "./envelope.gen.js";
export type * from "./events.js";
export { type FollowOptions, follow } from "./follow.js";
export { type InvokeOptions, invokeAgent, type StreamAgentRequest } from "./invoke.js";
export type * from "./job_responses.js";
export { type DeliveryFilter, Jobs, type NewCron } from "./jobs.js";
export { LineBuffer, linesOf, objectsOf } from "./lines.js";
export { Problem, problemOf } from "./problem.js";
export type { Connection } from "./reconnect.js";
export { reduce } from "./reduce.js";
export type { ClientOptions } from "./request.js";
export type * from "./responses.js";
export * from "./select.js";
export * from "./session.js";
export { eventsOf, type ServerSentEvent, SseReader } from "./sse.js";
export { type Live, LiveSession } from "./store.js";
export type * from "./workflow_responses.js";
export { type NewWorkflow, type WorkflowPage, Workflows } from "./workflows.js";
