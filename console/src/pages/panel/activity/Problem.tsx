import type { SessionProblem } from "@stellwerk/client";
import { memo } from "react";
import { classes } from "../../../parts/classes";
import { EventLink } from "../../../parts/EventLink";
import { Icon } from "../../../parts/Icon";
import { useTexts } from "../../../texts";

/** A problem of a run. */
export const Problem = memo(function Problem({ sid, problem }: { sid: string; problem: SessionProblem }) {
  const { panel } = useTexts();
  const { level, code, message, agent, position } = problem;
  return (
    <div
      className={classes(
        "mx-3 my-1.5 flex items-start gap-2 rounded-lg px-3 py-2 text-sm",
        level === "error" ? "bg-bad-soft text-bad" : "bg-warn-soft text-warn",
      )}
    >
      <span className="mt-0.5">
        <Icon name="alert" size={16} />
      </span>
      <div className="min-w-0 flex-1">
        <p className="break-words">
          <strong className="font-semibold">{panel.levels[level]}: </strong>
          {message}
        </p>
        <p className="font-mono text-xs">{[code, agent].filter(Boolean).join(" · ")}</p>
      </div>
      <EventLink sid={sid} position={position} of={message} />
    </div>
  );
});
