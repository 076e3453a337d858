/** Selectors: what components read from a session. */
import { openNotices } from "./checklist.js";
import type { Call, Entry, MessageEntry, Question, Run, Session } from "./session.js";

/** All entries, then the messages that models are writing. */
export function conversation(session: Session): readonly Entry[] {
  return session.drafts.length === 0 ? session.entries : [...session.entries, ...session.drafts];
}

/** The text of an entry, also while it streams. */
export function textOf(session: Session, entry: Entry): string {
  return entry.kind === "message" && entry.state !== "said" ? (modelOf(session, entry)?.text ?? "") : entry.text;
}

/** The model's reasoning before this message; empty if it reported none. */
export function reasoningOf(session: Session, entry: MessageEntry): string {
  return modelOf(session, entry)?.reasoning ?? "";
}

export function openQuestions(session: Session): readonly Question[] {
  return session.questions.filter((one) => one.state === "open");
}

export function childrenOf(session: Session, of: Call | Run): readonly Call[] {
  const ids = "kind" in of ? of.children : of.calls;
  return ids.flatMap((id) => session.calls.get(id) ?? []);
}

/** The open blockers of the checklist. */
export function blockerOf(session: Session): string | null {
  return openNotices(session.checklist, "blocker").join("; ") || null;
}

/** Progress as reported by the run; without a number, derived from the tasks. */
export function progressOf(session: Session) {
  const { tasks } = session.checklist;
  const over = tasks.filter((task) => task.status === "completed" || task.status === "skipped").length;
  const byTasks = tasks.length > 0 ? Math.floor((100 * over) / tasks.length) : null;
  const { percent = byTasks, message = null } = session.progress;
  return { percent, message, tasksOver: over, tasks: tasks.length };
}

/** Tokens of all models together. */
export function tokensOf(session: Session): { readonly inputTokens: number; readonly outputTokens: number } {
  const models = Object.values(session.usage.models);
  return {
    inputTokens: models.reduce((sum, model) => sum + model.inputTokens, 0),
    outputTokens: models.reduce((sum, model) => sum + model.outputTokens, 0),
  };
}

function modelOf(session: Session, entry: MessageEntry) {
  const call = entry.callId === undefined ? undefined : session.calls.get(entry.callId);
  return call?.kind === "model" ? call : undefined;
}
