import { classes } from "./classes";

const TONES = { accent: "bg-accent", good: "bg-good", warn: "bg-warn", bad: "bg-bad", muted: "bg-line-strong" };

interface Props {
  label: string;
  /** From 0 to 100; null: unknown. */
  percent: number | null;
  /** Text for screen readers instead of the number. */
  text?: string;
  tone?: keyof typeof TONES;
  className: string;
}

/** A progress bar. */
export function Track({ label, percent, text, tone = "accent", className }: Props) {
  return (
    <div
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent ?? undefined}
      aria-valuetext={text}
      className={classes("overflow-hidden rounded-full bg-sunken", className)}
    >
      <div
        className={classes("h-full rounded-full transition-[width]", TONES[tone], percent === null && "animate-pulse")}
        style={{ width: `${percent ?? 100}%` }}
      />
    </div>
  );
}
