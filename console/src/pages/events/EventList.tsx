import type { Envelope } from "@stellwerk/client";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { Button } from "../../parts/Button";
import { classes } from "../../parts/classes";
import { useTexts } from "../../texts";
import { number } from "../../texts/figures";
import { EventRow } from "./EventRow";
import { rowOf } from "./filter";

const HEIGHT = 34;
const PAGE = 15;
const STEPS: Record<string, number> = {
  ArrowUp: -1,
  ArrowDown: 1,
  PageUp: -PAGE,
  PageDown: PAGE,
  Home: Number.NEGATIVE_INFINITY,
  End: Number.POSITIVE_INFINITY,
};

interface Props {
  /** Always the same growing list; `count` is its current length. */
  rows: readonly Envelope[];
  count: number;
  /** The number before filtering. */
  of: number;
  live: boolean;
  at: number | undefined;
  onChoose: (position: number) => void;
}

/** A virtual list of events. */
export function EventList({ rows, count, of, live, at, onChoose }: Props) {
  const { events: words, language } = useTexts();
  const box = useRef<HTMLDivElement>(null);
  const [tail, setTail] = useState(false);
  const list = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => HEIGHT,
    overscan: 10,
  });
  const { row, there } = rowOf(rows, at ?? 0);
  const chosen = at !== undefined && there ? row : null;
  useShowing(chosen, (index, align) => list.scrollToIndex(index, { align }));
  useEffect(() => {
    if (tail && count > 0) list.scrollToIndex(count - 1, { align: "end" });
  }, [tail, count, list]);

  const walk = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setTail(false);
    const from = chosen ?? (step > 0 ? row - 1 : row);
    const envelope = rows[Math.max(0, Math.min(count - 1, from + step))];
    if (envelope) onChoose(envelope.position);
  };
  const summary = words.count(number(count, language), number(of, language));
  // biome-ignore lint/correctness/useExhaustiveDependencies: announced once per filter; not every new event
  const found = useMemo(() => summary, [rows]);
  const seen = list.getVirtualItems();
  const active = seen.some((item) => item.index === chosen) ? `event-${at}` : undefined;
  return (
    <div className="flex min-h-0 min-w-0 flex-1 flex-col">
      <div className="flex items-center justify-between gap-2 text-sm text-muted">
        <p>{summary}</p>
        <p role="status" className="sr-only">
          {found}
        </p>
        <Button look="quiet" aria-pressed={tail} onClick={() => setTail(!tail)}>
          <span
            aria-hidden
            className={classes("size-2 rounded-full", tail ? "bg-good" : "border border-line-strong")}
          />
          {live ? words.tail : words.reading}
        </Button>
      </div>
      <div
        ref={box}
        role="listbox"
        tabIndex={0}
        aria-label={words.title}
        aria-activedescendant={active}
        onKeyDown={walk}
        onWheel={(event) => event.deltaY < 0 && setTail(false)}
        onTouchMove={() => setTail(false)}
        className="min-h-0 flex-1 overflow-y-auto rounded-xl border border-line bg-surface shadow-card"
      >
        <div role="presentation" className="relative" style={{ height: list.getTotalSize() }}>
          {seen.map(({ index, start }) => {
            const envelope = rows[index];
            const place = {
              top: start,
              height: HEIGHT,
              place: index + 1,
              of: count,
              chosen: index === chosen,
              isNarrow: at !== undefined,
            };
            return envelope && <EventRow key={envelope.position} {...{ envelope, onChoose }} {...place} />;
          })}
        </div>
      </div>
    </div>
  );
}

/** Scrolls to the selected row: to the middle when the page opens with it, else as little as needed. */
function useShowing(chosen: number | null, scroll: (index: number, align: "center" | "auto") => void): void {
  const before = useRef<number | null>(null);
  const go = useRef(scroll);
  go.current = scroll;
  useEffect(() => {
    if (chosen === null) return;
    go.current(chosen, before.current === null ? "center" : "auto");
    before.current = chosen;
  }, [chosen]);
}
