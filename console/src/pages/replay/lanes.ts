import { type Call, childrenOf, type Run, type Session } from "@stellwerk/client";
import { type State, statesOf } from "../panel/activity/states";
import type { Pause, Tape } from "./tape";

const KINDS = ["agents", "tools", "models"] as const;
type Kind = (typeof KINDS)[number];

/** Limits of rows per lane and bars per row: bars that would overlap visibly are omitted. */
const ROWS = 8;
const PLACES = 400;

export interface Bar {
  readonly id: string;
  readonly name: string;
  readonly state: State;
  /** Fractions of the axis, from 0 to 1. */
  readonly from: number;
  readonly to: number;
  readonly row: number;
  /** Its start in the log. */
  readonly position: number;
  /** Missing while it runs. */
  readonly seconds?: number | undefined;
}

export interface Lane {
  readonly kind: Kind;
  readonly rows: number;
  readonly bars: readonly Bar[];
  /** Calls that are not drawn. */
  readonly left: number;
}

/** One round on a time axis. */
export interface Axis {
  readonly round: number;
  /** In seconds of the tape. */
  readonly start: number;
  readonly end: number;
  readonly lanes: readonly Lane[];
  readonly pauses: readonly Pause[];
}

type Placed = Omit<Bar, "row"> & { readonly kind: Kind };

/** All calls of a round: agents, tools and models, concurrent ones in separate rows. */
export function axisOf(tape: Tape, round: number): Axis | null {
  const runs = tape.end.runs.filter((run) => run.round === round);
  const [first] = runs;
  if (first === undefined) return null;
  const time = (position: number) => tape.time(tape.index(position));
  const start = time(first.startPosition);
  const end = Math.max(...runs.map((run) => time(run.endPosition ?? tape.end.position)));
  const whole = Math.max(end - start, 0.001);
  const part = (position: number) => Math.min(1, (time(position) - start) / whole);
  const standing = statesOf(tape.end);
  const placed = runs.flatMap((run) => [
    barOfRun(run, part),
    ...callsOf(tape.end, run).map((one) => barOf(one, standing(one), part)),
  ]);
  const lanes = KINDS.map((kind) =>
    laneOf(
      kind,
      placed.filter((one) => one.kind === kind),
    ),
  );
  const pauses = tape.pauses.filter((pause) => pause.from >= start && pause.to <= end);
  return { round, start, end: start + whole, lanes: lanes.filter((lane) => lane.bars.length > 0), pauses };
}

function callsOf(session: Session, of: Call | Run): Call[] {
  return childrenOf(session, of).flatMap((call) => [call, ...callsOf(session, call)]);
}

function barOfRun(run: Run, part: (position: number) => number): Placed {
  const state = { running: "running", failed: "error", stopped: "abandoned" } as const;
  return {
    id: run.id,
    kind: "agents",
    name: run.system,
    state: run.status in state ? state[run.status as keyof typeof state] : "ok",
    from: part(run.startPosition),
    to: part(run.endPosition ?? Number.POSITIVE_INFINITY),
    position: run.startPosition,
    seconds: run.endedAt === undefined ? undefined : run.endedAt - run.startedAt,
  };
}

function barOf(call: Call, state: State, part: (position: number) => number): Placed {
  return {
    id: call.id,
    kind: call.kind === "model" ? "models" : call.kind === "tool" ? "tools" : "agents",
    name: call.name,
    state,
    from: part(call.startPosition),
    to: part(call.endPosition ?? Number.POSITIVE_INFINITY),
    position: call.startPosition,
    seconds: call.duration,
  };
}

function laneOf(kind: Kind, calls: readonly Placed[]): Lane {
  const ends: number[] = [];
  const bars: Bar[] = [];
  const taken = new Set<string>();
  for (const call of [...calls].sort((a, b) => a.from - b.from || a.position - b.position)) {
    const free = ends.findIndex((end) => end <= call.from);
    const row = free === -1 ? ends.length : free;
    const place = `${row} ${Math.floor(call.from * PLACES)} ${Math.floor(call.to * PLACES)}`;
    if (row >= ROWS || taken.has(place)) continue;
    taken.add(place);
    ends[row] = call.to;
    bars.push({ ...call, row });
  }
  return { kind, rows: ends.length, bars, left: calls.length - bars.length };
}
