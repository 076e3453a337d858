import { useId } from "react";
import type { CheckpointInfo } from "../../../server/types";
import { useTexts } from "../../../texts";
import { clock } from "../../../texts/time";
import type { Texts } from "../../../texts/types";

interface Props {
  checkpoints: readonly CheckpointInfo[];
  /** Null: the latest. */
  value: string | null;
  /** In replay: it shows the checkpoint and offers no other. */
  isFixed: boolean;
  onChange: (checkpoint: string | null) => void;
}

/** Chooses the checkpoint whose state is shown. */
export function CheckpointChoice({ checkpoints, value, isFixed, onChange }: Props) {
  const texts = useTexts();
  const { panel } = texts;
  const id = useId();
  return (
    <>
      <label htmlFor={id} className="mb-1.5 block text-sm font-medium">
        {panel.checkpoint}
      </label>
      <select
        id={id}
        disabled={isFixed}
        value={value ?? ""}
        onChange={(event) => onChange(event.target.value || null)}
        className="h-9 w-full rounded-lg border border-line-strong bg-surface px-3 text-sm text-ink disabled:opacity-70"
      >
        <option value="">{panel.latest}</option>
        {checkpoints.map((one) => (
          <option key={one.checkpoint_id} value={one.checkpoint_id}>
            {described(one, texts)}
          </option>
        ))}
      </select>
    </>
  );
}

/** A checkpoint in a line: its step, what made it, and when. */
function described({ step, source, node, created_at: ts }: CheckpointInfo, { panel, language }: Texts): string {
  const origin = source === "update" ? panel.sources.update : source === "input" ? panel.sources.input : node;
  return [panel.step(step), origin, clock(ts, language)].filter(Boolean).join(" · ");
}
