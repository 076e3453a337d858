import { classes } from "../../parts/classes";

interface Props {
  label: string;
  /** Null: nobody knows. */
  percent: number | null;
  tone?: "accent" | "good" | "bad" | "muted";
  className?: string;
}

const TONES = { accent: "bg-accent", good: "bg-good", bad: "bg-bad", muted: "bg-line-strong" };

export function ProgressBar({ label, percent, tone = "accent", className }: Props) {
  const known = percent !== null;
  return (
    <div className={classes("flex items-center gap-3", className)}>
      <div
        role="progressbar"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent ?? undefined}
        className="h-2 flex-1 overflow-hidden rounded-full bg-sunken"
      >
        <div
          className={classes("h-full rounded-full transition-[width]", TONES[tone], !known && "animate-pulse")}
          style={{ width: `${percent ?? 100}%` }}
        />
      </div>
      {known && <span className="text-sm text-muted tabular-nums">{percent} %</span>}
    </div>
  );
}
