import type { Session } from "@stellwerk/client";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useCallback, useMemo, useState } from "react";
import { useTexts } from "../../../texts";
import { CallHeader } from "./CallHeader";
import { useFollowing } from "./following";
import { ShownSession } from "./GraphGave";
import { Problem } from "./Problem";
import { RunHeader } from "./RunHeader";
import { Told } from "./Told";
import { neighbour, type Openness, type Row, rowsOf } from "./tree";

interface Props {
  sid: string;
  session: Session;
  openness: Openness;
  onOpen: (key: string, open: boolean) => void;
}

const MOVES = { ArrowUp: "up", ArrowDown: "down" } as const;

/** Every call of every round, each below the one that made it. Only what can be seen is built. */
export function Activity({ sid, session, openness, onOpen }: Props) {
  const { panel } = useTexts();
  const rows = useMemo(() => rowsOf(session, openness), [session, openness]);
  const [scroller, setScroller] = useState<HTMLElement | null>(null);
  // A new function has the places of all rows worked out anew.
  const getItemKey = useCallback((index: number) => rows[index]?.key ?? index, [rows]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller,
    estimateSize: () => 34,
    getItemKey,
    overscan: 10,
  });
  const { look, leave } = useFollowing(scroller, virtual.getTotalSize());
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
    case "told":
      return <Told {...row} stripes={row.lane?.stripes ?? ""} />;
    case "problem":
      return <Problem sid={sid} problem={row.problem} />;
    default:
      return null;
  }
}

/** Arrows as in a tree: up and down to another call, right to open it, left to close it or to leave for the one around. */
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
