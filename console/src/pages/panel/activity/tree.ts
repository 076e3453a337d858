import {
  type Call,
  childrenOf,
  type Run,
  type Session,
  type SessionProblem,
  type UpdateEnvelope,
} from "@stellwerk/client";
import { type State, statesOf } from "./states";

/** The agent of a call. Parallel agents differ in name or number, and in colour. */
export interface Lane {
  readonly name: string;
  readonly colour: number;
  /** The enclosing agents and the agent itself, each as depth and colour, such as `0:1 2:3`. */
  readonly stripes: string;
}

interface Placed {
  /** Unique and stable. */
  readonly key: string;
  readonly depth: number;
}

interface RunRow extends Placed {
  readonly type: "run";
  readonly run: Run;
  readonly open: boolean;
  /** One of its problems already states the reason. */
  readonly explained: boolean;
}

interface CallRow extends Placed {
  readonly type: "call";
  readonly call: Call;
  readonly open: boolean;
  readonly lane: Lane | null;
  readonly state: State;
  readonly parentKey: string;
}

/** Details of an open call. If it has children, its input comes before them and its result after. */
export interface ToldRow extends Placed {
  readonly type: "details";
  readonly call: Call;
  readonly state: State;
  readonly lane: Lane | null;
  readonly part: "given" | "gave" | "both";
}

interface ProblemRow extends Placed {
  readonly type: "problem";
  readonly problem: SessionProblem;
}

/** A change of the graph's state by a client. */
interface ChangeRow extends Placed {
  readonly type: "change";
  readonly change: UpdateEnvelope;
}

export type Row = RunRow | CallRow | ToldRow | ProblemRow | ChangeRow;

/** Rows opened or closed by hand; all others have their default. */
export type Openness = Readonly<Record<string, boolean>>;

const COLOURS = 6;

/** The visible rows. Closed calls are not traversed. Changes of the state are placed between the rounds. */
export function rowsOf(session: Session, openness: Openness, changes: readonly UpdateEnvelope[] = []): Row[] {
  const rows: Row[] = [];
  let added = 0;
  const addChanges = (before: number) => {
    for (let change = changes[added]; change && change.position < before; change = changes[++added])
      rows.push({ type: "change", key: `change ${change.position}`, depth: 0, change });
  };
  const standing = statesOf(session);
  const trace = session.runs.at(-1)?.traceId;
  for (const run of session.runs) {
    const open = openness[run.id] ?? (trace !== undefined ? run.traceId === trace : run === session.runs.at(-1));
    addChanges(run.startPosition);
    const problems = open ? session.problems.filter(({ runId }) => runId === run.id) : [];
    const explained = problems.some(({ message }) => message === run.reason);
    rows.push({ type: "run", key: run.id, depth: 0, run, open, explained });
    if (open) addCalls({ session, openness, standing, rows }, run, run.id, 0, null);
    for (const problem of problems)
      rows.push({ type: "problem", key: `${run.id} ${problem.position}`, depth: 0, problem });
  }
  addChanges(Number.POSITIVE_INFINITY);
  return rows;
}

interface Walk {
  readonly session: Session;
  readonly openness: Openness;
  readonly standing: (call: Call) => State;
  readonly rows: Row[];
}

function addCalls(walk: Walk, of: Call | Run, parentKey: string, depth: number, around: Lane | null): void {
  const calls = childrenOf(walk.session, of);
  const lanes = lanesOf(calls, depth, around);
  for (const call of calls) {
    const { id: key } = call;
    const lane = lanes.get(key) ?? around;
    const open = walk.openness[key] ?? startsOpen(call);
    const state = walk.standing(call);
    walk.rows.push({ type: "call", key, depth, call, open, lane, state, parentKey });
    if (!open) continue;
    const inside = depth + 1;
    const details = { type: "details", depth: inside, call, state, lane } as const;
    if (call.children.length === 0) {
      walk.rows.push({ ...details, key: `${key} both`, part: "both" });
      continue;
    }
    walk.rows.push({ ...details, key: `${key} given`, part: "given" });
    addCalls(walk, call, key, inside, lane);
    if (call.state !== "running") walk.rows.push({ ...details, key: `${key} gave`, part: "gave" });
  }
}

const startsOpen = (call: Call): boolean => call.kind === "agent" || call.kind === "graph";

/** Agents with the same parent get different colours, and numbers if they have the same name. */
function lanesOf(calls: readonly Call[], depth: number, around: Lane | null): Map<string, Lane> {
  const agents = calls.filter((call) => call.kind === "agent");
  const counts = new Map<string, number>();
  for (const { name } of agents) counts.set(name, (counts.get(name) ?? 0) + 1);
  const seen = new Map<string, number>();
  return new Map(
    agents.map(({ id, name }, place) => {
      const number = (seen.get(name) ?? 0) + 1;
      seen.set(name, number);
      const label = (counts.get(name) ?? 0) > 1 ? `${name} ${number}` : name;
      const colour = ((around?.colour ?? -1) + 1 + place) % COLOURS;
      return [id, { name: label, colour, stripes: `${around?.stripes ?? ""} ${depth}:${colour}`.trim() }];
    }),
  );
}

/** The row that a key moves to from this one, or null. */
export function neighbour(rows: readonly Row[], key: string, step: "up" | "down" | "out"): string | null {
  const at = rows.findIndex((row) => row.key === key);
  const row = rows[at];
  if (row === undefined) return null;
  if (step === "out") return row.type === "call" ? row.parentKey : null;
  const way = step === "down" ? 1 : -1;
  for (let next = at + way; next >= 0 && next < rows.length; next += way) {
    const found = rows[next];
    if (found?.type === "run" || found?.type === "call") return found.key;
  }
  return null;
}
