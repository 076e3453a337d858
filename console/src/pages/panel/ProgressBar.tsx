import type { Session } from "@stellwerk/client";
import { Track } from "../../parts/Track";
import { useTexts } from "../../texts";
import { percent } from "../../texts/figures";
import { shownProgress } from "./progress";

/** How far the round is that is under way, if anybody knows. */
export function ProgressBar({ session }: { session: Session }) {
  const { panel, language } = useTexts();
  const progress = shownProgress(session);
  if (progress === null) return null;
  const { percent: value, tasks } = progress;
  const message = progress.message ?? (tasks ? panel.tasks(...tasks) : panel.progress);
  const shown = Math.round(value);
  const told = percent(value, language);
  return (
    <div className="border-b border-line px-4 py-3">
      <div className="mb-1.5 flex items-baseline justify-between gap-3 text-sm">
        <span className="truncate" title={message}>
          {message}
        </span>
        <span className="shrink-0 text-xs text-muted tabular-nums">{told}</span>
      </div>
      <Track
        label={panel.progress}
        percent={shown}
        text={`${told}, ${message}`}
        tone={session.progress.level === "error" ? "bad" : "accent"}
        className="h-1.5"
      />
    </div>
  );
}
