import { type Call, childrenOf, type Session, type Task } from "@stellwerk/client";

export type TaskState = "waiting" | "running" | "asks" | "done" | "failed" | "stopped" | "skipped";

export interface ShownTask {
  key: string;
  title: string;
  agent: string;
  state: TaskState;
  /** Documents that the task writes. */
  writes: readonly string[];
  seconds?: number;
  why?: string;
}

interface PlannedTask {
  agent: string;
  prompt: string;
  outputDocuments: readonly string[];
}

/** The tasks of the work plan with their status; without a plan, those of the checklist. */
export function tasksOf(session: Session): readonly ShownTask[] {
  const plan = session.states.plan;
  const planned = plannedIn(plan?.value);
  if (!plan || planned.length === 0) return session.checklist.tasks.map(ofChecklist);
  const calls = session.runs
    .filter(({ endPosition }) => endPosition === undefined || endPosition > plan.position)
    .flatMap((run) => childrenOf(session, run))
    .filter(({ startPosition }) => startPosition > plan.position);
  return planned.map((task, index) => {
    const mine = calls.findLast((call) => call.kind === "agent" && call.toolCallId.startsWith(`task-${index + 1}-`));
    const state = stateOf(mine, session);
    return {
      ...{
        key: `${plan.version} ${index}`,
        title: task.prompt,
        agent: task.agent,
        state,
        writes: task.outputDocuments,
      },
      ...(mine?.duration === undefined ? {} : { seconds: mine.duration }),
      ...(mine?.kind === "agent" && mine.error ? { why: mine.error.message } : {}),
    };
  });
}

function stateOf(call: Call | undefined, session: Session): TaskState {
  const over = session.status !== "running";
  if (!call) return over ? "stopped" : "waiting";
  if (call.state === "ok") return "done";
  if (call.state === "error") return "failed";
  if (call.state === "abandoned") return over ? "stopped" : "waiting";
  return session.awaitingUserInput ? "asks" : over ? "stopped" : "running";
}

export const countFailed = (tasks: readonly ShownTask[]): number =>
  tasks.filter(({ state }) => state === "failed").length;

/** Whether a round is running that has no plan yet. */
export function isPlanning(session: Session): boolean {
  const run = session.runs.at(-1);
  if (session.status !== "running" || run?.trigger !== "message") return false;
  return (session.states.plan?.position ?? 0) < run.startPosition;
}

const STATES: Record<Task["status"], TaskState> = {
  pending: "waiting",
  blocked: "asks",
  in_progress: "running",
  skipped: "skipped",
  completed: "done",
};

function ofChecklist({ id, title, owner, status, note }: Task): ShownTask {
  const shown = { key: id, title, agent: owner, state: STATES[status], writes: [] };
  return note ? { ...shown, why: note } : shown;
}

/** A user's graph may use this name for something else. */
function plannedIn(value: unknown): readonly PlannedTask[] {
  if (typeof value !== "object" || value === null || !("objWorkplan" in value)) return [];
  return Array.isArray(value.objWorkplan) ? value.objWorkplan.filter(isTask) : [];
}

function isTask(value: unknown): value is PlannedTask {
  if (typeof value !== "object" || value === null) return false;
  const { agent, prompt, outputDocuments } = value as Partial<PlannedTask>;
  const texts = typeof agent === "string" && typeof prompt === "string";
  return texts && Array.isArray(outputDocuments);
}
