import type { Task } from "./responses.js";
import type { Checklist, Notice } from "./session.js";

/** In order of progress: of two forms of a task with the same version, the more advanced one wins. */
const STATUSES: readonly Task["status"][] = ["pending", "blocked", "in_progress", "skipped", "completed"];

/**
 * Merges a snapshot into a checklist. Agents that work in parallel each report only their own change, so every task,
 * question and blocker keeps its newest version.
 */
export function merged(known: Checklist, snapshot: unknown): Checklist {
  if (!isChecklist(snapshot)) return known;
  const { tasks, lost } = newest([...known.tasks, ...known.lost, ...snapshot.tasks, ...snapshot.lost]);
  const branches = [...new Set([...Object.keys(known.patches), ...Object.keys(snapshot.patches)])].sort();
  const patches = Object.fromEntries(
    branches.map((branch) => [branch, Math.max(known.patches[branch] ?? 0, snapshot.patches[branch] ?? 0)]),
  );
  const version = Object.values(patches).reduce((sum, count) => sum + count, 0);
  return { version, tasks, lost, patches, notices: newestNotices([...known.notices, ...snapshot.notices]) };
}

export function openNotices(checklist: Checklist, kind: Notice["kind"]): readonly string[] {
  return checklist.notices.filter((one) => one.kind === kind && one.version % 2 === 1).map((one) => one.text);
}

/** A user's graph may use this name for something else. */
function isChecklist(value: unknown): value is Checklist {
  if (typeof value !== "object" || value === null) return false;
  const { tasks, notices, lost, patches } = value as Partial<Checklist>;
  return [tasks, notices, lost].every(Array.isArray) && typeof patches === "object" && patches !== null;
}

function newest(tasks: readonly Task[]): { tasks: readonly Task[]; lost: readonly Task[] } {
  const forms = new Map<string, Task[]>();
  for (const task of tasks.toSorted(byId)) forms.set(task.id, [...(forms.get(task.id) ?? []), task]);
  const best: Task[] = [];
  const lost: Task[] = [];
  for (const same of forms.values()) {
    const top = Math.max(...same.map((task) => task.version));
    const distinct = new Map(same.filter((task) => task.version === top).map((task) => [JSON.stringify(task), task]));
    const ranked = [...distinct].sort(byRank).map(([, task]) => task);
    best.push(...ranked.slice(-1));
    lost.push(...ranked.slice(0, -1));
  }
  return { tasks: best, lost };
}

/** Tasks of the outermost agent first; within a branch in the order of planning. */
function byId(left: Task, right: Task): number {
  const [a, b] = [numbersIn(left.id), numbersIn(right.id)];
  if (a.length !== b.length) return a.length - b.length;
  const index = a.findIndex((number, place) => number !== b[place]);
  return index < 0 ? 0 : (a[index] ?? 0) - (b[index] ?? 0);
}

function numbersIn(id: string): number[] {
  return [...id.matchAll(/\d+/g)].map(([digits]) => Number(digits));
}

function byRank([leftText, left]: [string, Task], [rightText, right]: [string, Task]): number {
  const further = STATUSES.indexOf(left.status) - STATUSES.indexOf(right.status);
  return further !== 0 ? further : compare(leftText, rightText);
}

function newestNotices(notices: readonly Notice[]): readonly Notice[] {
  const sorted = notices.toSorted(
    (a, b) => compare(a.kind, b.kind) || compare(a.text, b.text) || a.version - b.version,
  );
  return [...new Map(sorted.map((one) => [`${one.kind} ${one.text}`, one])).values()];
}

function compare(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
