import type { NamedState, Session, Task } from "@stellwerk/client";

/** Named states without the checklist, which has its own view; last changed first. */
export function shownStates(session: Session): [name: string, state: NamedState][] {
  return Object.entries(session.states)
    .filter(([name]) => name !== "checklist")
    .toSorted(([, left], [, right]) => right.position - left.position);
}

interface Todo {
  readonly content: string;
  readonly status: Task["status"];
}

const STATUSES: readonly string[] = ["pending", "blocked", "in_progress", "skipped", "completed"];

/** A to-do list as planning agents write it; null for any other value. */
export function todosOf(value: unknown): readonly Todo[] | null {
  return Array.isArray(value) && value.length > 0 && value.every(isTodo) ? value : null;
}

function isTodo(value: unknown): value is Todo {
  if (typeof value !== "object" || value === null) return false;
  const { content, status } = value as Partial<Todo>;
  return typeof content === "string" && STATUSES.includes(status ?? "");
}

/** Files in memory by path; null for any other value. */
export function filesOf(value: unknown): readonly [path: string, text: string][] | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const files = Object.entries(value).map(([path, file]) => [path, contentOf(file)] as const);
  const texts = files.flatMap(([path, text]): [string, string][] => (text === null ? [] : [[path, text]]));
  return files.length > 0 && texts.length === files.length ? texts : null;
}

/** In older logs the content is a list of lines. */
function contentOf(file: unknown): string | null {
  if (typeof file !== "object" || file === null) return null;
  const { content } = file as { content?: unknown };
  if (Array.isArray(content)) return content.join("\n");
  return typeof content === "string" ? content : null;
}
