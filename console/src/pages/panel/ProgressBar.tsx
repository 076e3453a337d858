import type { Session } from "@stellwerk/client";
import { Track } from "../../parts/Track";
import { useTexts } from "../../texts";
import { percent } from "../../texts/figures";
import { shownProgress } from "./progress";

/** The progress of the current round, if known. */
export function ProgressBar({ session }: { session: Session }) {
  const { panel, language } = useTexts();
  const progress = shownProgress(session);
  if (progress === null) return null;
  const { percent: value, tasks } = progress;
  const message = progress.message ?? (tasks ? panel.tasks(...tasks) : panel.progress);
  const shown = Math.round(value);
  const label = percent(value, language);
  return (
    <div className="border-b border-line px-4 py-3">
      <div className="mb-1.5 flex items-baseline justify-between gap-3 text-sm">
        <span className="truncate" title={message}>
          {message}
        </span>
        <span className="shrink-0 text-xs text-muted tabular-nums">{label}</span>
      </div>
      <Track
        label={panel.progress}
        percent={shown}
        text={`${label}, ${message}`}
        tone={session.progress.level === "error" ? "bad" : "accent"}
        className="h-1.5"
      />
    </div>
  );
}
