import { useTexts } from "../texts";
import { Badge, type Tone } from "./Badge";

const TONES: Record<string, Tone> = { running: "accent", awaiting: "warn", completed: "good", failed: "bad" };

/** The status of a session or a workflow. */
export function StatusBadge({ status, awaiting = false }: { status: string; awaiting?: boolean }) {
  const { status: words } = useTexts();
  const shown = awaiting ? "awaiting" : status;
  return (
    <Badge tone={TONES[shown] ?? "neutral"}>
      {shown === "running" && <span aria-hidden className="size-1.5 animate-pulse rounded-full bg-current" />}
      {words[shown as keyof typeof words] ?? shown}
    </Badge>
  );
}
