import { type KeyboardEvent, memo, useEffect, useRef } from "react";
import { classes } from "../../parts/classes";
import { useTexts } from "../../texts";
import { duration } from "../../texts/figures";
import type { Bar, Lane, Axis as Shape } from "./lanes";

const ROW = 24;

const LOOKS: Record<Bar["state"], string> = {
  running: "border-accent bg-accent-soft text-accent-strong",
  ok: "border-accent bg-accent-soft text-accent-strong",
  error: "border-bad bg-bad-soft text-bad",
  abandoned: "border-warn bg-warn-soft text-warn",
  waiting: "border-warn bg-warn-soft text-warn",
  rejected: "border-warn bg-warn-soft text-warn",
};
/** Stays next to the lanes when they scroll. */
const NAMES = "sticky left-0 z-10 w-20 shrink-0 bg-surface";
const MARKS = [
  { at: 0, place: "" },
  ...[0.25, 0.5, 0.75].map((at) => ({ at, place: "-translate-x-1/2" })),
  { at: 1, place: "-translate-x-full" },
];
const AHEAD = "border-line bg-sunken text-muted";

interface Props {
  axis: Shape;
  /** The current time in seconds of the tape. */
  time: number;
  /** Jumps to a position of the log. */
  onChoose: (position: number) => void;
}

/** The calls of a round as bars on a time axis. */
export function Axis({ axis, time, onChoose }: Props) {
  const { replay, language } = useTexts();
  const part = (at: number) => Math.min(1, Math.max(0, (at - axis.start) / (axis.end - axis.start)));
  const now = part(time);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => follow(box.current, now), [now]);
  return (
    <div ref={box} className="mt-2 max-h-56 overflow-auto low:hidden">
      <div className="relative min-w-160 lg:min-w-lg">
        <div className="flex text-xs text-muted tabular-nums">
          <span className={NAMES}>{replay.round(axis.round)}</span>
          <p className="relative min-h-4.5 flex-1">
            {MARKS.map(({ at, place }) => (
              <span key={at} className={classes("absolute whitespace-nowrap", place)} style={{ left: percent(at) }}>
                {duration(at * (axis.end - axis.start), language)}
              </span>
            ))}
          </p>
        </div>
        {axis.lanes.map((lane) => (
          <LaneOf key={lane.kind} lane={lane} now={now} onChoose={onChoose} />
        ))}
        <div aria-hidden className="pointer-events-none absolute top-4 right-0 bottom-0 left-20">
          {axis.pauses.map((pause) => (
            <span
              key={pause.from}
              className="absolute inset-y-0 border-x border-dashed border-line-strong"
              style={{ left: percent(part(pause.from)), width: percent(part(pause.to) - part(pause.from)) }}
            />
          ))}
          <span className="absolute inset-y-0 w-0.5 -translate-x-1/2 bg-ink" style={{ left: percent(now) }} />
        </div>
      </div>
    </div>
  );
}

function LaneOf({ lane, now, onChoose }: { lane: Lane; now: number; onChoose: (position: number) => void }) {
  const { replay } = useTexts();
  const reached = lane.bars.findLast((bar) => bar.from <= now) ?? lane.bars[0];
  return (
    <div className="flex border-t border-line py-1">
      <span className={classes(NAMES, "pt-0.5 text-xs text-muted")}>
        {replay.kinds[lane.kind]}
        {lane.left > 0 && <span className="block">{replay.more(lane.left)}</span>}
      </span>
      <ul
        aria-label={replay.kinds[lane.kind]}
        className="relative min-w-0 flex-1"
        style={{ height: lane.rows * ROW }}
        onKeyDown={walk}
      >
        {lane.bars.map((bar) => (
          <li key={bar.id}>
            <BarOf bar={bar} ahead={bar.from > now} current={bar === reached} onChoose={onChoose} />
          </li>
        ))}
      </ul>
    </div>
  );
}

interface BarProps {
  bar: Bar;
  ahead: boolean;
  /** The bar in the tab order; arrow keys move to the others. */
  current: boolean;
  onChoose: (position: number) => void;
}

const BarOf = memo(function BarOf({ bar, ahead, current, onChoose }: BarProps) {
  const { replay, language } = useTexts();
  const took = bar.seconds === undefined ? replay.states.running : duration(bar.seconds, language);
  const label = `${bar.name}, ${replay.states[bar.state]}, ${took}`;
  return (
    <button
      type="button"
      tabIndex={current ? 0 : -1}
      aria-label={label}
      title={label}
      onClick={() => onChoose(bar.position)}
      className={classes(
        "absolute h-5 overflow-clip rounded border px-1 text-left text-[0.6875rem] leading-4.5 -outline-offset-2 hover:border-ink",
        ahead ? AHEAD : LOOKS[bar.state],
      )}
      style={{ left: percent(bar.from), width: `max(6px, ${percent(bar.to - bar.from)})`, top: bar.row * ROW + 2 }}
    >
      {bar.to - bar.from > 0.06 && <span className="sticky left-21 block w-fit max-w-full truncate">{bar.name}</span>}
    </button>
  );
});

/** Keeps the current moment visible where the axis is wider than the page. */
function follow(box: HTMLElement | null, now: number): void {
  if (box === null || box.scrollWidth <= box.clientWidth) return;
  const names = box.querySelector("span")?.clientWidth ?? 0;
  const x = names + now * (box.scrollWidth - names);
  if (x < box.scrollLeft + names || x > box.scrollLeft + box.clientWidth) box.scrollLeft = x - box.clientWidth / 2;
}

function walk(event: KeyboardEvent<HTMLUListElement>): void {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step === undefined) return;
  const bars = [...event.currentTarget.querySelectorAll("button")];
  const next = bars[bars.indexOf(event.target as HTMLButtonElement) + step];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}

const percent = (part: number) => `${(part * 100).toFixed(3)}%`;
