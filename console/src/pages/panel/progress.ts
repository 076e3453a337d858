import { progressOf, type Session } from "@stellwerk/client";

export interface ShownProgress {
  /** From 0 to 100. */
  readonly percent: number;
  readonly message: string | null;
  /** Ended tasks and all tasks; only if they belong to this round. */
  readonly tasks: readonly [over: number, all: number] | null;
}

/** The progress of the current round, if known. Tasks count if this round has changed them. */
export function shownProgress(session: Session): ShownProgress | null {
  if (session.status !== "running") return null;
  const { percent, message, tasks, tasksOver } = progressOf(session);
  const now = session.runs.at(-1);
  const first = session.runs.find((run) => run === now || (run.traceId !== undefined && run.traceId === now?.traceId));
  const changed = session.states.checklist?.position ?? 0;
  const isOurs = tasks > 0 && changed > (first?.startPosition ?? 0);
  const known = isOurs ? percent : (session.progress.percent ?? null);
  if (known === null) return null;
  return { percent: Math.min(100, Math.max(0, known)), message, tasks: isOurs ? [tasksOver, tasks] : null };
}
