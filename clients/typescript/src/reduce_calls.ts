import type {
  LlmEndEnvelope,
  LlmStartEnvelope,
  LlmTokenEnvelope,
  ToolEndEnvelope,
  ToolStartEnvelope,
  ToolUpdateEnvelope,
} from "./envelope.gen.js";
import { draftsAfter, settled, writing } from "./reduce_entries.js";
import { withRun } from "./reduce_runs.js";
import type { Call, ModelCall, Session, SessionUsage, ToolCall } from "./session.js";

export function modelStarted(session: Session, envelope: LlmStartEnvelope): Session {
  const { payload } = envelope;
  const call: ModelCall = {
    ...begun(envelope),
    kind: "model",
    name: payload.model,
    messageId: payload.message_id,
    node: payload.node,
    text: "",
    reasoning: "",
    writing: {},
  };
  const started = withStarted(session, call);
  return isOuter(session, call) ? { ...started, drafts: settled(started.drafts) } : started;
}

export function toolStarted(session: Session, envelope: ToolStartEnvelope): Session {
  const { payload } = envelope;
  const call: ToolCall = {
    ...begun(envelope),
    kind: payload.kind ?? "tool",
    name: payload.tool_name,
    toolCallId: payload.tool_call_id,
    title: payload.title,
    node: payload.node,
    args: payload.args ?? {},
    input: payload.input,
    retryOf: payload.retry_of,
    output: "",
  };
  return withStarted(session, call);
}

export function modelWrote(session: Session, envelope: LlmTokenEnvelope): Session {
  const call = session.calls.get(envelope.call_id);
  if (call?.kind !== "model") return session;
  const { text, kind } = envelope.payload;
  const changed: ModelCall =
    kind === "reasoning" ? { ...call, reasoning: call.reasoning + text } : { ...call, text: call.text + text };
  // A token without text was removed: it starts no message.
  const first = text !== "" && call.text === "" && call.reasoning === "" && isOuter(session, call);
  const after = withCall(session, changed);
  return first ? { ...after, drafts: [...session.drafts, writing(envelope, call.messageId)] } : after;
}

export function toolUpdated(session: Session, envelope: ToolUpdateEnvelope): Session {
  const call = session.calls.get(envelope.call_id);
  if (call === undefined) return session;
  const { text = "", data, tool_call_id: id = "", tool_name: name = "" } = envelope.payload;
  if (call.kind === "model") {
    const args = (call.writing[id]?.args ?? "") + text;
    return withCall(session, { ...call, writing: { ...call.writing, [id]: { name, args } } });
  }
  return withCall(session, { ...call, output: call.output + text, data: data ?? call.data });
}

export function callEnded(session: Session, envelope: LlmEndEnvelope | ToolEndEnvelope): Session {
  const counted = { ...session, usage: used(session.usage, envelope) };
  const call = session.calls.get(envelope.call_id);
  if (call === undefined) return counted;
  const ended = withCall(counted, { ...call, ...endOf(call, envelope) } as Call);
  if (envelope.type === "tool_end") return ended;
  const state = envelope.payload.status === "ok" ? "written" : "abandoned";
  return { ...ended, drafts: draftsAfter(ended.drafts, call.id, state) };
}

function endOf(call: Call, envelope: LlmEndEnvelope | ToolEndEnvelope): Partial<ModelCall> | Partial<ToolCall> {
  const { ts, position } = envelope;
  const when = { endedAt: ts, endPosition: position, state: envelope.payload.status, duration: ts - call.startedAt };
  if (envelope.type === "llm_end") {
    const { usage, finish_reason: finishReason, tool_calls: toolCalls } = envelope.payload;
    return { ...when, usage, finishReason, toolCalls };
  }
  const { result, error, outcome, duration = when.duration } = envelope.payload;
  return { ...when, duration, result, error, outcome };
}

function begun(envelope: LlmStartEnvelope | ToolStartEnvelope) {
  return {
    id: envelope.call_id,
    parentId: envelope.parent_id,
    runId: envelope.run_id,
    agent: envelope.agent,
    state: "running" as const,
    startedAt: envelope.ts,
    startPosition: envelope.position,
    children: [],
  };
}

function withStarted(session: Session, call: Call): Session {
  const known = session.calls.has(call.id);
  const after = withCall(session, call);
  return known || call.parentId === null ? after : withChild(after, call.parentId, call.id);
}

function withChild(session: Session, parentId: string, id: string): Session {
  const parent = session.calls.get(parentId);
  if (parent !== undefined) return withCall(session, { ...parent, children: [...parent.children, id] });
  const run = session.runs.findLast((one) => one.id === parentId);
  return run === undefined ? session : withRun(session, parentId, { calls: [...run.calls, id] });
}

function withCall(session: Session, call: Call): Session {
  return { ...session, calls: session.calls.with(call.id, call) };
}

/** Whether the call's text belongs to the session and not to a tool: all its ancestors are graphs. */
function isOuter(session: Session, call: Call): boolean {
  for (let id = call.parentId; id !== null; ) {
    const around = session.calls.get(id);
    if (around === undefined) return true;
    if (around.kind !== "graph") return false;
    id = around.parentId;
  }
  return true;
}

function used(usage: SessionUsage, envelope: LlmEndEnvelope | ToolEndEnvelope): SessionUsage {
  if (envelope.type === "tool_end") return { ...usage, toolCalls: usage.toolCalls + 1 };
  const spent = envelope.payload.usage;
  if (spent === undefined) return { ...usage, modelCalls: usage.modelCalls + 1 };
  const before = usage.models[spent.model] ?? { inputTokens: 0, outputTokens: 0, calls: 0 };
  const counted = {
    inputTokens: before.inputTokens + (spent.input_tokens ?? 0),
    outputTokens: before.outputTokens + (spent.output_tokens ?? 0),
    calls: before.calls + 1,
  };
  return { ...usage, modelCalls: usage.modelCalls + 1, models: { ...usage.models, [spent.model]: counted } };
}
