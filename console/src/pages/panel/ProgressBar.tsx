import { progressOf, type Session } from "@stellwerk/client";
import { classes } from "../../parts/classes";
import { useTexts } from "../../texts";

/** How far the session is, if anybody knows. */
export function ProgressBar({ session }: { session: Session }) {
  const { panel } = useTexts();
  const { percent, message: said, tasks, tasksOver } = progressOf(session);
  const message = said ?? (tasks > 0 ? panel.tasks(tasksOver, tasks) : panel.progress);
  if (percent === null) return null;
  const shown = Math.round(Math.min(100, Math.max(0, percent)));
  const failed = session.status === "failed" || session.progress.level === "error";
  return (
    <div className="border-b border-line px-4 py-3">
      <div className="mb-1.5 flex items-baseline justify-between gap-3 text-sm">
        <span className="truncate" title={message}>
          {message}
        </span>
        <span className="shrink-0 text-xs text-muted tabular-nums">{panel.percent(shown)}</span>
      </div>
      <div
        role="progressbar"
        aria-label={panel.progress}
        aria-valuenow={shown}
        aria-valuetext={`${panel.percent(shown)}, ${message}`}
        className="h-1.5 overflow-hidden rounded-full bg-sunken"
      >
        <div
          className={classes("h-full rounded-full transition-[width]", failed ? "bg-bad" : "bg-accent")}
          style={{ width: `${shown}%` }}
        />
      </div>
    </div>
  );
}
