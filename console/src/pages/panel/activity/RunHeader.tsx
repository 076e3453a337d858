import type { Run } from "@stellwerk/client";
import { memo } from "react";
import { Badge } from "../../../parts/Badge";
import { classes } from "../../../parts/classes";
import { Icon } from "../../../parts/Icon";
import { StatusBadge } from "../../../parts/StatusBadge";
import { useTexts } from "../../../texts";
import { duration, number } from "../../../texts/figures";
import { EventsLink } from "../EventsLink";

interface Props {
  sid: string;
  run: Run;
  open: boolean;
  explained: boolean;
  /** It had asked, and another round went on from there. */
  isAnswered: boolean;
  onOpen: (key: string, open: boolean) => void;
}

/** One round: what started it, how it ended, what it took. */
export const RunHeader = memo(function RunHeader({ sid, run, open, explained, isAnswered, onOpen }: Props) {
  const { panel, language } = useTexts();
  const tokens = run.usage.reduce((sum, used) => sum + (used.input_tokens ?? 0) + (used.output_tokens ?? 0), 0);
  const facts = [
    run.trigger !== "message" && panel.triggers[run.trigger],
    run.endedAt !== undefined && duration(run.endedAt - run.startedAt, language),
    tokens > 0 && panel.tokens(number(tokens, language)),
    run.replacedBy && panel.replaced,
  ].filter(Boolean);
  return (
    <div className="border-b border-line bg-canvas pr-3">
      <div className="flex items-center gap-1">
        <button
          type="button"
          data-row={run.id}
          aria-expanded={open}
          onClick={() => onOpen(run.id, !open)}
          className="flex min-w-0 flex-1 items-center gap-2 py-2 pl-3 text-left text-sm -outline-offset-2"
        >
          <span className={classes("text-muted transition-transform", open && "rotate-90")}>
            <Icon name="chevron" size={15} />
          </span>
          <span className="font-semibold whitespace-nowrap">{panel.round(run.round)}</span>
          <span className="truncate text-xs text-muted">{facts.join(" · ")}</span>
        </button>
        {run.attempt > 1 && run.trigger !== "answer" && (
          <span title={panel.attemptWhy}>
            <Badge tone="warn">{panel.attempt(run.attempt)}</Badge>
          </span>
        )}
        <StatusBadge
          status={isAnswered ? "asked" : run.status}
          awaiting={run.status === "awaiting_user" && !isAnswered}
        />
        <EventsLink sid={sid} at={run.startPosition} of={panel.round(run.round)} />
      </div>
      {run.reason && !explained && <p className="pb-2 pl-9 text-sm break-words text-muted">{run.reason}</p>}
    </div>
  );
});
