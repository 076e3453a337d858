import type { Run } from "@stellwerk/client";
import { memo } from "react";
import { Badge } from "../../../parts/Badge";
import { StatusBadge } from "../../../parts/StatusBadge";
import { useTexts } from "../../../texts";
import { duration, number } from "../../../texts/figures";
import { RowHead } from "./RowHead";

interface Props {
  sid: string;
  run: Run;
  open: boolean;
  explained: boolean;
  /** It ended with a question, and another round continued from it. */
  isAnswered: boolean;
  onOpen: (key: string, open: boolean) => void;
}

/** A round: trigger, outcome and cost. */
export const RunHeader = memo(function RunHeader({ sid, run, open, explained, isAnswered, onOpen }: Props) {
  const { panel, language } = useTexts();
  const tokens = run.usage.reduce((sum, used) => sum + (used.input_tokens ?? 0) + (used.output_tokens ?? 0), 0);
  const facts = [
    run.trigger !== "message" && panel.triggers[run.trigger],
    run.endedAt !== undefined && duration(run.endedAt - run.startedAt, language),
    tokens > 0 && panel.tokens(number(tokens, language)),
    run.replacedBy && panel.replaced,
  ].filter(Boolean);
  const name = panel.round(run.round);
  const beside = (
    <>
      {run.attempt > 1 && run.trigger !== "answer" && (
        <span title={panel.attemptWhy}>
          <Badge tone="warn">{panel.attempt(run.attempt)}</Badge>
        </span>
      )}
      <StatusBadge
        status={isAnswered ? "asked" : run.status}
        awaiting={run.status === "awaiting_user" && !isAnswered}
      />
    </>
  );
  return (
    <div className="border-b border-line bg-canvas pr-3">
      <RowHead sid={sid} id={run.id} open={open} onOpen={onOpen} at={run.startPosition} of={name} beside={beside}>
        <span className="font-semibold whitespace-nowrap">{name}</span>
        <span className="truncate text-xs text-muted">{facts.join(" · ")}</span>
      </RowHead>
      {run.reason && !explained && <p className="pb-2 pl-9 text-sm break-words text-muted">{run.reason}</p>}
    </div>
  );
});
