import type { Envelope } from "@stellwerk/client";
import { memo } from "react";
import { classes } from "../../parts/classes";
import { useTexts } from "../../texts";
import { summaryOf } from "./summary";

interface Props {
  envelope: Envelope;
  top: number;
  height: number;
  /** Its index and the total. */
  place: number;
  of: number;
  chosen: boolean;
  /** Details are open next to the list. */
  isNarrow: boolean;
  onChoose: (position: number) => void;
}

const TONES: Partial<Record<Envelope["type"], string>> = { error: "text-bad", warning: "text-warn" };

export const EventRow = memo(function EventRow(props: Props) {
  const { envelope, top, height, place, of, chosen, isNarrow, onChoose } = props;
  const { language } = useTexts();
  const { position, type, agent, ts } = envelope;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the list has the focus and handles the keys
    // biome-ignore lint/a11y/useFocusableInteractive: referenced by aria-activedescendant of the list
    <div
      role="option"
      id={`event-${position}`}
      aria-selected={chosen}
      aria-posinset={place}
      aria-setsize={of}
      onClick={() => onChoose(position)}
      style={{ transform: `translateY(${top}px)`, height }}
      className={classes(
        "absolute inset-x-0 top-0 flex cursor-pointer items-center gap-3 border-b border-line px-3 text-sm",
        chosen ? "bg-accent-soft" : "hover:bg-hover",
      )}
    >
      <span className="w-12 shrink-0 text-right text-xs text-muted tabular-nums">{position}</span>
      <code className={classes("w-28 shrink-0 truncate text-xs sm:w-36", TONES[type] ?? "text-accent-strong")}>
        {type}
      </code>
      <span
        className={classes("w-24 shrink-0 truncate text-xs text-muted", isNarrow ? "max-2xl:hidden" : "max-lg:hidden")}
      >
        {agent}
      </span>
      <span
        className={classes(
          "w-24 shrink-0 text-xs text-muted tabular-nums",
          isNarrow ? "max-xl:hidden" : "max-md:hidden",
        )}
      >
        {clock(ts, language)}
      </span>
      <span className="min-w-0 flex-1 truncate">{summaryOf(envelope)}</span>
    </div>
  );
});

const formats = new Map<string, Intl.DateTimeFormat>();

/** The time of day in milliseconds; the formatter is created once, because it is expensive. */
function clock(ts: number, language: string): string {
  const known = formats.get(language);
  const format = known ?? new Intl.DateTimeFormat(language, { timeStyle: "medium", hourCycle: "h23" });
  if (known === undefined) formats.set(language, format);
  return `${format.format(ts * 1000)}.${String(Math.floor((ts % 1) * 1000)).padStart(3, "0")}`;
}
