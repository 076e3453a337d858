/** What components ask of a session, so that no two of them fold it differently. */
import { openNotices } from "./checklist.js";
import type { Call, Entry, MessageEntry, Question, Run, Session } from "./session.js";

/** What was said, and below it what a model is about to say. */
export function conversation(session: Session): readonly Entry[] {
  return session.drafts.length === 0 ? session.entries : [...session.entries, ...session.drafts];
}

/** The text of an entry, also while a model writes it. */
export function textOf(session: Session, entry: Entry): string {
  return entry.kind === "message" && entry.state !== "said" ? (modelOf(session, entry)?.text ?? "") : entry.text;
}

/** What the model thought before it wrote this message; empty if it told nothing of it. */
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

/** Why it cannot go on, as its checklist says. */
export function blockerOf(session: Session): string | null {
  return openNotices(session.checklist, "blocker").join("; ") || null;
}

/** How far it is: as the run says; if that names no number, as the tasks say. */
export function progressOf(session: Session) {
  const { tasks } = session.checklist;
  const over = tasks.filter((task) => task.status === "completed" || task.status === "skipped").length;
  const byTasks = tasks.length > 0 ? Math.floor((100 * over) / tasks.length) : null;
  const { percent = byTasks, message = null } = session.progress;
  return { percent, message, tasksOver: over, tasks: tasks.length };
}

/** All models together. */
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
