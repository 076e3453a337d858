import type { RunEndEnvelope, RunStartEnvelope, SubgraphResumeEnvelope } from "./envelope.gen.js";
import { settled, withoutRuns } from "./reduce_entries.js";
import type { Run, Session } from "./session.js";

export function runStarted(session: Session, envelope: RunStartEnvelope): Session {
  const { payload: started, ts } = envelope;
  const run: Run = {
    id: envelope.call_id,
    traceId: envelope.trace_id,
    round: started.round,
    trigger: started.trigger,
    system: started.system,
    systemVersion: started.system_version,
    messageId: started.message_id,
    status: "running",
    attempt: 1,
    startedAt: ts,
    startPosition: envelope.position,
    usage: [],
    calls: [],
  };
  const { replaces } = started;
  const before = replaces === undefined ? session : replaced(session, replaces, run);
  return {
    ...before,
    status: "running",
    awaitingUserInput: false,
    stopping: false,
    round: started.round,
    runId: run.id,
    lastActivity: ts,
    runs: [...before.runs, run],
    progress: { level: "info" },
    usage: { ...before.usage, runs: before.usage.runs + 1 },
  };
}

export function runEnded(session: Session, envelope: RunEndEnvelope): Session {
  const { payload: ended, ts } = envelope;
  const waits = ended.status === "awaiting_user";
  const run = session.runs.findLast((one) => one.id === envelope.call_id);
  // An interrupted draft is all there is of the answer if the run is not resumed.
  const cutShort = ended.status === "stopped" || ended.status === "failed";
  const left = cutShort ? session.drafts.filter((draft) => draft.state === "abandoned") : [];
  const seconds = session.usage.seconds + Math.max(0, ts - (run?.startedAt ?? ts));
  return {
    ...withRun(session, envelope.call_id, {
      status: ended.status,
      endedAt: ts,
      endPosition: envelope.position,
      usage: ended.usage ?? [],
      result: ended.result,
      reason: ended.reason,
      code: ended.code,
    }),
    awaitingUserInput: waits,
    status: ended.status === "awaiting_user" ? session.status : ended.status,
    stopping: false,
    lastActivity: ts,
    entries: left.length > 0 ? [...session.entries, ...left] : session.entries,
    drafts: [],
    questions: waits
      ? session.questions
      : session.questions.map((one) => (one.state === "open" ? { ...one, state: "closed" } : one)),
    usage: { ...session.usage, seconds: Math.round(seconds * 1e6) / 1e6 },
  };
}

/** After a crash the run repeats what was interrupted. */
export function resumed(session: Session, envelope: SubgraphResumeEnvelope): Session {
  const { attempt } = envelope.payload;
  const id = envelope.run_id ?? envelope.call_id;
  return { ...withRun(session, id, { attempt }), drafts: settled(session.drafts) };
}

export function withRun(session: Session, id: string, changes: Partial<Run>): Session {
  const index = session.runs.findLastIndex((run) => run.id === id);
  const run = session.runs[index];
  return run === undefined ? session : { ...session, runs: session.runs.with(index, { ...run, ...changes }) };
}

/** The round of this run and all later ones are replaced: an answer was regenerated, or a message edited. */
function replaced(session: Session, id: string, by: Run): Session {
  const known = session.runs.find((run) => run.id === id);
  const first = session.runs.findIndex((run) => run === known || (known?.traceId && run.traceId === known.traceId));
  const gone = session.runs.slice(Math.max(first, 0)).filter((run) => run.replacedBy === undefined);
  const ids = new Set([id, ...gone.map((run) => run.id)]);
  const messages = new Set(gone.map((run) => run.messageId));
  return {
    ...session,
    runs: session.runs.map((run) => (gone.includes(run) ? { ...run, replacedBy: by.id } : run)),
    entries: withoutRuns(session.entries, ids, messages, by.messageId),
  };
}
