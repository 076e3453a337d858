import { merged } from "./checklist.js";
import type { DocumentEnvelope, ErrorEnvelope, LogEnvelope, StateEnvelope, WarningEnvelope } from "./envelope.gen.js";
import { patched } from "./patch.js";
import type { LogLine, NamedState, Session, SessionDocument, SessionProblem } from "./session.js";

export function stateChanged(session: Session, envelope: StateEnvelope): Session {
  const { name, version, snapshot, patch, owner } = envelope.payload;
  const before = session.states[name]?.value;
  const value = patch === undefined ? snapshot : patched(before, patch);
  const state: NamedState = { version, value, owner, position: envelope.position };
  const states = { ...session.states, [name]: state };
  if (name !== "checklist") return { ...session, states };
  return { ...session, states, checklist: merged(session.checklist, value) };
}

export function documentChanged(session: Session, envelope: DocumentEnvelope): Session {
  const { document_id: documentId, name, mime, size, action, message_id: messageId, redacted } = envelope.payload;
  if (action === "removed") {
    if (messageId !== undefined) return session; // another message still has it
    return { ...session, documents: session.documents.filter((one) => one.documentId !== documentId) };
  }
  if (redacted) return session; // the remainder of a removed document, without a name
  if (session.documents.some((one) => one.documentId === documentId && one.name === name)) return session;
  const { ts: addedAt, run_id: runId, agent } = envelope;
  const document: SessionDocument = { documentId, name, mime, size, addedAt, runId, agent };
  return { ...session, documents: [...session.documents, document] };
}

export function logged(session: Session, envelope: LogEnvelope): Session {
  const { message, level = "info", progress: percent, status, data } = envelope.payload;
  const { ts, agent, run_id: runId, position } = envelope;
  const line: LogLine = { message, level, percent, status, data, ts, agent, runId, position };
  const progress = { percent: percent ?? session.progress.percent, message, level, agent, ts };
  return { ...session, progress, logs: session.logs.with(line) };
}

export function problemReported(session: Session, envelope: WarningEnvelope | ErrorEnvelope): Session {
  const { code, message, fatal = false, retryable = false } = envelope.payload;
  const problem: SessionProblem = {
    level: envelope.type,
    ...{ code, message, fatal, retryable },
    agent: envelope.agent,
    runId: envelope.run_id,
    callId: envelope.call_id,
    position: envelope.position,
    ts: envelope.ts,
  };
  return { ...session, problems: [...session.problems, problem] };
}
