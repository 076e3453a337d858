import { useEffect, useRef } from "react";
import type { Shortcuts } from "../../state/shortcuts";
import { useTexts } from "../../texts";
import { duration } from "../../texts/figures";
import { moment } from "../../texts/time";
import { summaryOf } from "../events/summary";
import type { Player } from "./player";
import { LONGEST_PAUSE, type Tape } from "./tape";

interface Props {
  tape: Tape;
  player: Player;
  /** The replay's shortcuts work here too. */
  keys: Shortcuts;
  length: number;
  /** The end of the log, and how far it is read. */
  wanted: number;
  read: number;
}

export function Slider({ tape, player, keys, length, wanted, read }: Props) {
  const { replay, language } = useTexts();
  const place = player.index ?? length;
  const envelope = tape.envelope(place);
  const pause = player.index === null ? undefined : tape.pauseAfter(place);
  const ref = useRef<HTMLInputElement>(null);
  const isThere = length > 0;
  useEffect(() => {
    // Takes the focus from the button that opened the replay and is gone.
    if (isThere && document.activeElement === document.body) ref.current?.focus();
  }, [isThere]);
  const where = envelope ? `${envelope.type} ${summaryOf(envelope)}` : replay.start;
  return (
    <div className="mt-2">
      <input
        ref={ref}
        type="range"
        min={0}
        max={length}
        value={place}
        disabled={!isThere}
        aria-label={replay.slider}
        aria-valuetext={`${replay.place(place, length)}: ${where.slice(0, 120)}`}
        onChange={(event) => player.move(Number(event.target.value))}
        onKeyDown={(event) => {
          const does = event.key === " " ? keys.k : keys[event.key];
          if (does === undefined) return;
          event.preventDefault();
          does();
        }}
        className="block h-6 w-full accent-accent"
      />
      <div className="flex min-h-6 items-baseline gap-3 text-sm">
        <span className="shrink-0 tabular-nums">{replay.place(place, length)}</span>
        {envelope && (
          <>
            <code className="shrink-0 text-xs text-accent-strong">{envelope.type}</code>
            <span className="min-w-0 flex-1 truncate text-muted">{summaryOf(envelope)}</span>
            <span className="shrink-0 text-xs text-muted tabular-nums max-sm:hidden">
              {moment(envelope.ts, language)}
            </span>
          </>
        )}
      </div>
      <p className="text-xs text-warn">
        {pause && replay.pause(duration(pause.seconds, language), duration(LONGEST_PAUSE, language))}
        {!pause && read < wanted && replay.reading(read, wanted)}
      </p>
    </div>
  );
}
