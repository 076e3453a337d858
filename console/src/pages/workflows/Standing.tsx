import type { Session, WorkflowLog } from "@stellwerk/client";
import { Card } from "../../parts/Card";
import { useTexts } from "../../texts";
import { ProgressBar } from "./ProgressBar";
import { percentOf } from "./reading";

const TONES = { idle: "accent", running: "accent", completed: "good", failed: "bad", stopped: "muted" } as const;

/** How far it is, and what its log said last. */
export function Standing({ session, logs }: { session: Session; logs: readonly WorkflowLog[] }) {
  const { workflows: words } = useTexts();
  const percent = percentOf(logs);
  return (
    <Card>
      <ProgressBar label={words.progress} percent={percent} tone={TONES[session.status]} />
      <p aria-live="polite" className="mt-2 text-sm break-words text-muted">
        {logs.at(-1)?.message ?? words.beginning}
      </p>
    </Card>
  );
}
