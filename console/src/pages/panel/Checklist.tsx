import type { Notice, Task, Checklist as Tasks } from "@stellwerk/client";
import { classes } from "../../parts/classes";
import { EventLink } from "../../parts/EventLink";
import { Icon } from "../../parts/Icon";
import { useTexts } from "../../texts";
import { TaskBadge } from "./TaskBadge";

interface Props {
  sid: string;
  checklist: Tasks;
  /** The position of its last change. */
  at: number;
}

/** The tasks and their blockers. */
export function Checklist({ sid, checklist, at }: Props) {
  const { panel } = useTexts();
  const { tasks, notices, lost } = checklist;
  const over = tasks.filter(({ status }) => status === "completed" || status === "skipped").length;
  return (
    <div className="space-y-4 p-4">
      {notices.filter(isOpen).map((notice) => (
        <NoticeBox key={`${notice.kind} ${notice.text}`} notice={notice} />
      ))}
      <div className="flex items-center justify-between gap-2">
        <p className="text-sm text-muted">{panel.tasks(over, tasks.length)}</p>
        <EventLink sid={sid} position={at} of={panel.tabs.checklist} />
      </div>
      <ol className="space-y-3">
        {tasks.map((task) => (
          <TaskLine key={task.id} task={task} />
        ))}
      </ol>
      {lost.length > 0 && <p className="text-xs text-muted">{panel.lost(lost.length)}</p>}
    </div>
  );
}

const isOpen = ({ version }: Notice): boolean => version % 2 === 1;

function NoticeBox({ notice: { kind, text } }: { notice: Notice }) {
  const { panel } = useTexts();
  const blocks = kind === "blocker";
  return (
    <div
      className={classes("rounded-lg px-3 py-2 text-sm", blocks ? "bg-bad-soft text-bad" : "bg-warn-soft text-warn")}
    >
      <p className="font-semibold">{blocks ? panel.blocker : panel.openQuestion}</p>
      <p className="break-words">{text}</p>
    </div>
  );
}

function TaskLine({ task }: { task: Task }) {
  const { panel } = useTexts();
  const { id, title, owner, status, note, depends_on: after } = task;
  const over = status === "completed";
  const facts = [id, owner && panel.owner(owner), after.length > 0 && panel.after(after.join(", "))].filter(Boolean);
  return (
    <li className="flex items-start gap-2.5">
      <span
        aria-hidden
        className={classes(
          "mt-0.5 grid size-4.5 shrink-0 place-items-center rounded-md border",
          over ? "border-good bg-good-soft text-good" : "border-line-strong text-transparent",
        )}
      >
        <Icon name="check" size={13} />
      </span>
      <div className="min-w-0 flex-1">
        <p className={classes("text-sm break-words", status === "skipped" && "text-muted line-through")}>{title}</p>
        <p className="text-xs break-words text-muted">{facts.join(" · ")}</p>
        {note && <p className="mt-0.5 text-xs break-words text-muted">{note}</p>}
      </div>
      <TaskBadge status={status} />
    </li>
  );
}
