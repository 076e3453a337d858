import {
  type AnswerEntry,
  childrenOf,
  conversation,
  type Entry,
  type MessageEntry,
  type Question,
  type Run,
  type Session,
  type SessionProblem,
  textOf,
} from "@stellwerk/client";
import type { Draft } from "../../state/draft";
import type { Outgoing } from "../../state/outbox";

/** A row of the conversation. */
export type Item =
  | MessageItem
  | { readonly kind: "question"; readonly key: string; readonly question: Question }
  | { readonly kind: "answer"; readonly key: string; readonly entry: AnswerEntry }
  | { readonly kind: "end"; readonly key: string; readonly run: Run; readonly isLast: boolean }
  | { readonly kind: "warning"; readonly key: string; readonly problem: SessionProblem }
  | { readonly kind: "waiting"; readonly key: string; readonly message: Outgoing }
  | { readonly kind: "working"; readonly key: string; readonly tool: string | null; readonly isWriting: boolean };

export interface MessageItem {
  readonly kind: "message";
  readonly key: string;
  readonly entry: MessageEntry;
  /** Whether the author is shown: the previous message has another one. */
  readonly isFirst: boolean;
  /** Queued until the current run ends. */
  readonly isQueued: boolean;
  /** The position from which a new session can continue. */
  readonly forkAt?: number;
  /** The answer that can be regenerated. */
  readonly isLast: boolean;
}

/** The position of queued messages. */
const LAST = Number.POSITIVE_INFINITY;
/** Codes of warnings about the user's message. */
const FOR_USERS = new Set(["images_not_shown"]);
const OVER = new Set<Run["status"]>(["completed", "failed", "stopped"]);

/** The rows of the conversation: messages, questions, failed runs, and the current activity. */
export function itemsOf(session: Session, waiting: readonly Outgoing[] = []): readonly Item[] {
  const entries = conversation(session);
  const runs = new Map(session.runs.map((run) => [run.id, run]));
  const questions = new Map(session.questions.map((question) => [question.askId, question]));
  const ends = session.runs.filter(
    ({ status, replacedBy }) => !replacedBy && (status === "failed" || status === "stopped"),
  );
  const lastOf = new Map(entries.map((entry) => [entry.runId, entry.position]));
  const items: Item[] = [];
  let ended = 0;
  const tellEnds = (before: number) => {
    for (let run = ends[ended]; run && (run.endPosition ?? 0) < before; run = ends[++ended])
      items.push({ kind: "end", key: `end ${run.id}`, run, isLast: run.id === session.runId });
  };
  const warnings = session.problems.filter(
    ({ code, runId = "" }) => FOR_USERS.has(code) && !runs.get(runId)?.replacedBy,
  );
  let warned = 0;
  const tellWarnings = (before: number) => {
    for (let problem = warnings[warned]; problem && problem.position < before; problem = warnings[++warned])
      items.push({ kind: "warning", key: `warning ${problem.position}`, problem });
  };
  let isTold = session.status !== "running" || session.awaitingUserInput;
  const tellWork = () => {
    if (!isTold) items.push(working(session));
    isTold = true;
  };
  for (const { entry, place } of inTurn(session, entries)) {
    tellWarnings(place);
    tellEnds(place);
    if (place === LAST) tellWork();
    const run = entry.runId === undefined ? undefined : runs.get(entry.runId);
    if (entry.kind === "message") {
      const isEnd = run !== undefined && OVER.has(run.status) && lastOf.get(run.id) === entry.position;
      const isSpoken = isEnd && entry.role === "assistant" && entry.state === "said";
      items.push({
        kind: "message",
        key: `said ${entry.messageId}`,
        entry,
        isFirst: isAnother(items.at(-1), entry),
        isQueued: place === LAST,
        ...(isSpoken && run.endPosition !== undefined ? { forkAt: run.endPosition } : {}),
        isLast: isSpoken && run.id === session.runId,
      });
    } else if (entry.kind === "question") {
      const question = questions.get(entry.askId);
      if (question) items.push({ kind: "question", key: `asked ${entry.askId}`, question });
    } else if (!questions.has(entry.askId)) items.push({ kind: "answer", key: `answer ${entry.askId}`, entry });
  }
  tellWarnings(LAST);
  tellEnds(LAST);
  tellWork();
  for (const message of waiting) items.push({ kind: "waiting", key: `waiting ${message.key}`, message });
  return items;
}

/** Messages queued until the current run ends. */
export function queuedIn(session: Session): readonly Draft[] {
  const names = new Map(session.documents.map(({ documentId, name }) => [documentId, name]));
  const queued = itemsOf(session).filter((item) => item.kind === "message" && item.isQueued) as readonly MessageItem[];
  return queued.map(({ entry }) => ({
    text: textOf(session, entry),
    files: [...new Set(entry.documents)].map((id) => ({ id, name: names.get(id) ?? id })),
    ...(entry.parameters && { parameters: entry.parameters }),
  }));
}

/** The author of a message, as recorded in the log. */
export const nameOf = (entry: MessageEntry): string | undefined => entry.agent ?? entry.author;

function isAnother(before: Item | undefined, entry: MessageEntry): boolean {
  if (before?.kind !== "message") return true;
  return before.entry.role !== entry.role || nameOf(before.entry) !== nameOf(entry);
}

interface Placed {
  readonly entry: Entry;
  readonly place: number;
}

/** A queued message is placed where its run started, above the answer; last while it is queued. */
function inTurn(session: Session, entries: readonly Entry[]): readonly Placed[] {
  const starts = new Map(session.runs.toReversed().map((run) => [run.messageId, run.startPosition]));
  const begun = session.status === "running" ? begunAt(session) : LAST;
  const placed = entries.map((entry) => ({ entry, place: placeOf(entry, starts, begun) }));
  const late = placed.filter(({ entry, place }) => place > entry.position);
  const inTime = placed.filter(({ entry, place }) => place <= entry.position);
  let taken = 0;
  const ordered = inTime.flatMap((one) => {
    const first = taken;
    while (taken < late.length && (late[taken]?.place ?? 0) <= one.place) taken += 1;
    return [...late.slice(first, taken), one];
  });
  return [...ordered, ...late.slice(taken)];
}

/** The position of an entry. A user's message is queued if no run has taken it since one started. */
function placeOf(entry: Entry, starts: ReadonlyMap<string | undefined, number>, begun: number): number {
  if (entry.kind !== "message" || entry.role !== "user" || entry.runId !== undefined) return entry.position;
  const start = starts.get(entry.messageId);
  if (start !== undefined) return Math.max(start, entry.position);
  return entry.position > begun ? LAST : entry.position;
}

const begunAt = (session: Session) => session.runs.find((run) => run.id === session.runId)?.startPosition ?? 0;

function working(session: Session): Item {
  const run = session.runs.at(-1);
  const tool = run && childrenOf(session, run).findLast((call) => call.state === "running" && call.kind !== "model");
  const isWriting = session.drafts.some((draft) => draft.state === "streaming");
  return { kind: "working", key: "working", tool: tool && tool.kind !== "graph" ? tool.name : null, isWriting };
}
