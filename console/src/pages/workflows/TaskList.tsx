import type { Session } from "@stellwerk/client";
import { Badge, type Tone } from "../../parts/Badge";
import { Card } from "../../parts/Card";
import { Icon, type IconName } from "../../parts/Icon";
import { useTexts } from "../../texts";
import { duration } from "../../texts/figures";
import { isPlanning, type ShownTask, type TaskState } from "./tasks";

const LOOKS: Record<TaskState, { tone: Tone; icon: IconName; color: string }> = {
  waiting: { tone: "neutral", icon: "clock", color: "text-muted" },
  running: { tone: "accent", icon: "chevron", color: "text-accent" },
  asks: { tone: "warn", icon: "chat", color: "text-warn" },
  done: { tone: "good", icon: "check", color: "text-good" },
  failed: { tone: "bad", icon: "alert", color: "text-bad" },
  stopped: { tone: "neutral", icon: "stop", color: "text-muted" },
  skipped: { tone: "neutral", icon: "close", color: "text-muted" },
};

/** Tasks, with their agents and status. */
export function TaskList({ session, tasks }: { session: Session; tasks: readonly ShownTask[] }) {
  const { workflows: words } = useTexts();
  if (isPlanning(session))
    return (
      <Card title={words.tasks}>
        <p className="text-sm text-muted">{words.planning}</p>
      </Card>
    );
  if (!tasks.length) return null;
  return (
    <Card title={words.tasks} flush>
      <ol aria-label={words.tasks} className="divide-y divide-line">
        {tasks.map((task) => (
          <TaskRow key={task.key} task={task} />
        ))}
      </ol>
    </Card>
  );
}

function TaskRow({ task }: { task: ShownTask }) {
  const { workflows: words, language } = useTexts();
  const { tone, icon, color } = LOOKS[task.state];
  return (
    <li className="flex gap-3 px-5 py-3">
      <span className={`mt-0.5 ${color}`}>
        <Icon name={icon} />
      </span>
      <div className="min-w-0 flex-1">
        <p className="break-words">{task.title}</p>
        <p className="mt-0.5 text-sm break-words text-muted">
          {[task.agent, task.writes.length ? words.writes(task.writes.join(", ")) : ""].filter(Boolean).join(" · ")}
        </p>
        {task.why && <p className="mt-1 text-sm break-words text-bad">{task.why}</p>}
      </div>
      <div className="flex shrink-0 flex-col items-end gap-1">
        <Badge tone={tone}>{words.taskStates[task.state]}</Badge>
        {task.seconds !== undefined && (
          <span className="text-xs text-muted tabular-nums">{duration(task.seconds, language)}</span>
        )}
      </div>
    </li>
  );
}
