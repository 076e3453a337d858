import type { Session, WorkflowLog } from "@stellwerk/client";
import { Card } from "../../parts/Card";
import { useTexts } from "../../texts";
import { ProgressBar } from "./ProgressBar";
import { percentOf } from "./queries";
import { countFailed, type ShownTask } from "./tasks";

const TONES = { idle: "accent", running: "accent", completed: "good", failed: "bad", stopped: "muted" } as const;

interface Props {
  session: Session;
  tasks: readonly ShownTask[];
  logs: readonly WorkflowLog[];
}

/** Progress and the last log line; for an ended round, its outcome: the log reports success even
 * if tasks failed. */
export function StatusLine({ session: { status }, tasks, logs }: Props) {
  const { workflows: words } = useTexts();
  const failed = countFailed(tasks);
  const isFlawed = status === "completed" && failed > 0;
  const end = isFlawed ? words.endedWithFailures(failed, tasks.length) : words.ends[status as keyof typeof words.ends];
  return (
    <Card>
      <ProgressBar label={words.progress} percent={percentOf(logs)} tone={isFlawed ? "warn" : TONES[status]} />
      <p className={`mt-2 text-sm break-words ${isFlawed ? "text-warn" : "text-muted"}`}>
        <span role="status">{end}</span>
        {end === undefined && (logs.at(-1)?.message ?? words.beginning)}
      </p>
    </Card>
  );
}
