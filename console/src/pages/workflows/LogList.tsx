import type { WorkflowLog } from "@stellwerk/client";
import { Card } from "../../parts/Card";
import { classes } from "../../parts/classes";
import { useTexts } from "../../texts";

const TONES = { info: "text-ink", warning: "text-warn", error: "text-bad" };

/** The log, newest first. */
export function LogList({ logs }: { logs: readonly WorkflowLog[] }) {
  const { workflows: words, language } = useTexts();
  const clock = new Intl.DateTimeFormat(language, { timeStyle: "medium" });
  return (
    <Card title={words.log} flush>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard */}
      <section aria-label={words.log} tabIndex={0} className="max-h-96 overflow-y-auto px-5 py-3">
        <ol className="space-y-2 text-sm">
          {logs.toReversed().map(({ id, message, type, timestamp, agentName }) => (
            <li key={id}>
              <p className={classes("break-words", TONES[type])}>
                {type !== "info" && <span className="font-medium">{words.levels[type]}: </span>}
                {message}
              </p>
              <p className="text-xs text-muted tabular-nums">
                {clock.format(Date.parse(timestamp))} · {agentName}
              </p>
            </li>
          ))}
        </ol>
      </section>
    </Card>
  );
}
