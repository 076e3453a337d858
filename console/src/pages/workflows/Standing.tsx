import type { Session, WorkflowLog } from "@stellwerk/client";
import { Card } from "../../parts/Card";
import { useTexts } from "../../texts";
import { ProgressBar } from "./ProgressBar";
import { percentOf } from "./reading";
import { countFailed, type ShownTask } from "./tasks";

const TONES = { idle: "accent", running: "accent", completed: "good", failed: "bad", stopped: "muted" } as const;

interface Props {
  session: Session;
  tasks: readonly ShownTask[];
  logs: readonly WorkflowLog[];
}

/** How far it is, and what its log said last; of a round that is over, how it ended: the log calls it a success also
 * when tasks have failed. */
export function Standing({ session: { status }, tasks, logs }: Props) {
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
