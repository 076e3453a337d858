import type { Session } from "@stellwerk/client";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useCallback, useMemo, useState } from "react";
import { useTexts } from "../../../texts";
import { userChanges } from "../changes";
import { useUpdates } from "../updates";
import { CallDetails } from "./CallDetails";
import { CallHeader } from "./CallHeader";
import { useFollowEnd } from "./followEnd";
import { ShownSession } from "./GraphResult";
import { Problem } from "./Problem";
import { RunHeader } from "./RunHeader";
import { StateChange } from "./StateChange";
import { neighbour, type Openness, type Row, rowsOf } from "./tree";

interface Props {
  sid: string;
  session: Session;
  /** Of a graph: with changes of its state by clients. */
  isGraph: boolean;
  /** In replay. */
  isPast: boolean;
  openness: Openness;
  onOpen: (key: string, open: boolean) => void;
}

const MOVES = { ArrowUp: "up", ArrowDown: "down" } as const;

/** All calls of all rounds as a tree. Renders only visible rows. */
export function Activity({ sid, session, isGraph, isPast, openness, onOpen }: Props) {
  const { panel } = useTexts();
  const { updates } = useUpdates(isGraph ? session.position : 0);
  const until = isPast ? session.position : Number.POSITIVE_INFINITY; // users' streams end before a change
  const changes = useMemo(() => userChanges(updates, until), [updates, until]);
  const rows = useMemo(() => rowsOf(session, openness, changes), [session, openness, changes]);
  const [scroller, setScroller] = useState<HTMLElement | null>(null);
  // A new function would recompute the positions of all rows.
  const getItemKey = useCallback((index: number) => rows[index]?.key ?? index, [rows]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller,
    estimateSize: () => 34,
    getItemKey,
    overscan: 10,
  });
  const { look, leave } = useFollowEnd(scroller, virtual.getTotalSize());
  const toggle = useCallback(
    (key: string, open: boolean) => {
      leave();
      onOpen(key, open);
    },
    [leave, onOpen],
  );
  const seen = virtual.getVirtualItems();
  return (
    <section
      ref={setScroller}
      aria-label={panel.tabs.activity}
      className="h-full overflow-y-auto [overflow-anchor:none]"
      onScroll={look}
    >
      <div className="relative" style={{ height: virtual.getTotalSize() }}>
        <ShownSession value={session}>
          <ul
            className="absolute inset-x-0 top-0"
            style={{ transform: `translateY(${seen[0]?.start ?? 0}px)` }}
            onKeyDown={(event) => move(event, rows, toggle)}
          >
            {seen.map(({ key, index }) => (
              <li
                key={key}
                ref={virtual.measureElement}
                data-index={index}
                aria-setsize={rows.length}
                aria-posinset={index + 1}
              >
                <Shown sid={sid} row={rows[index]} now={session.runId} onOpen={toggle} />
              </li>
            ))}
          </ul>
        </ShownSession>
      </div>
    </section>
  );
}

interface ShownProps {
  sid: string;
  row: Row | undefined;
  /** The run of the last round. */
  now: string | undefined;
  onOpen: Props["onOpen"];
}

function Shown({ sid, row, now, onOpen }: ShownProps) {
  switch (row?.type) {
    case "run": {
      const { run, open, explained } = row;
      const isAnswered = run.status === "awaiting_user" && run.id !== now;
      return <RunHeader {...{ sid, run, open, explained, isAnswered, onOpen }} />;
    }
    case "call": {
      const { call, depth, open, state, lane } = row;
      const whose = { lane: lane?.name ?? null, colour: lane?.colour ?? 0, stripes: lane?.stripes ?? "" };
      return <CallHeader {...{ sid, call, depth, open, state, onOpen }} {...whose} />;
    }
    case "details":
      return <CallDetails {...row} stripes={row.lane?.stripes ?? ""} />;
    case "problem":
      return <Problem sid={sid} problem={row.problem} />;
    case "change":
      return <StateChange sid={sid} change={row.change} />;
    default:
      return null;
  }
}

/** Tree keys: up and down to another call, right to open, left to close or to go to the parent. */
function move(event: KeyboardEvent<HTMLElement>, rows: readonly Row[], onOpen: Props["onOpen"]): void {
  const { target, key, currentTarget } = event;
  const from = target instanceof HTMLElement ? target.dataset.row : undefined;
  const row = rows.find((one) => one.key === from);
  if (row === undefined || !("open" in row) || event.altKey || event.ctrlKey || event.metaKey) return;
  if (key === "ArrowRight" && !row.open) onOpen(row.key, true);
  else if (key === "ArrowLeft" && row.open) onOpen(row.key, false);
  else {
    const step = key === "ArrowLeft" ? "out" : key === "ArrowRight" ? "down" : MOVES[key as keyof typeof MOVES];
    if (step === undefined) return;
    const next = neighbour(rows, row.key, step);
    if (next !== null) currentTarget.querySelector<HTMLElement>(`[data-row="${CSS.escape(next)}"]`)?.focus();
  }
  event.preventDefault();
}
