import type { Task } from "@stellwerk/client";
import { Badge, type Tone } from "../../parts/Badge";
import { useTexts } from "../../texts";

const TONES: Record<Task["status"], Tone> = {
  pending: "neutral",
  blocked: "bad",
  in_progress: "accent",
  skipped: "neutral",
  completed: "good",
};

/** The status of a task. */
export function TaskBadge({ status }: { status: Task["status"] }) {
  const { panel } = useTexts();
  return <Badge tone={TONES[status]}>{panel.task[status]}</Badge>;
}
