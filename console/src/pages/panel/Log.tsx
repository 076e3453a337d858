import type { Chain, LogLine } from "@stellwerk/client";
import { useState } from "react";
import { classes } from "../../parts/classes";
import { EventLink } from "../../parts/EventLink";
import { useTexts } from "../../texts";
import { percent as formatPercent } from "../../texts/figures";
import { clock } from "../../texts/time";

const PAGE = 100;
const LOOKS = { info: "", warning: "text-warn", error: "text-bad" };

/** Progress reports of runs, newest first. */
export function Log({ sid, logs }: { sid: string; logs: Chain<LogLine> }) {
  const { panel } = useTexts();
  const [shown, setShown] = useState(PAGE);
  const first = Math.max(0, logs.length - shown);
  const lines = Array.from({ length: logs.length - first }, (_, back) => logs.at(logs.length - 1 - back));
  return (
    <div className="p-4">
      <ol aria-label={panel.log} className="space-y-2.5">
        {lines.map((line) => line && <Line key={line.position} sid={sid} line={line} />)}
      </ol>
      {first > 0 && (
        <button type="button" className="mt-3 text-sm text-accent underline" onClick={() => setShown(shown + PAGE)}>
          {panel.earlier(first)}
        </button>
      )}
    </div>
  );
}

function Line({ sid, line }: { sid: string; line: LogLine }) {
  const { panel, language } = useTexts();
  const { ts, level, message, percent, agent, position } = line;
  return (
    <li className="flex items-start gap-3 text-sm">
      <time className="shrink-0 pt-px text-xs leading-5 text-muted tabular-nums">{clock(ts, language)}</time>
      <div className="min-w-0 flex-1">
        <p className={classes("break-words", LOOKS[level])}>
          {level !== "info" && <strong className="font-semibold">{panel.levels[level]}: </strong>}
          {message}
        </p>
        <p className="text-xs text-muted">
          {[agent, percent !== undefined && formatPercent(percent, language)].filter(Boolean).join(" · ")}
        </p>
      </div>
      <EventLink sid={sid} position={position} of={message} />
    </li>
  );
}
