import type { Call } from "@stellwerk/client";
import type { Tone } from "../../../parts/Badge";
import type { IconName } from "../../../parts/Icon";
import type { State } from "./states";

export const ICONS: Record<Call["kind"], IconName> = {
  agent: "agent",
  tool: "tools",
  model: "model",
  graph: "workflows",
};

export const TONES: Record<State, Tone> = {
  running: "accent",
  ok: "good",
  error: "bad",
  abandoned: "neutral",
  waiting: "warn",
  rejected: "warn",
};

/** The colour of a lane, always shown with its name. */
export const LANES = [
  "text-lane-1",
  "text-lane-2",
  "text-lane-3",
  "text-lane-4",
  "text-lane-5",
  "text-lane-6",
] as const;

const STEP = 14;
const DEEPEST = 9;

/** The indentation of a row in pixels. Deeper rows show their level as text. */
export const indent = (depth: number): number => STEP * Math.min(depth, DEEPEST);

/** The current activity of a call in one line: the arguments a model is writing, the last line of a tool. */
export function news(call: Call): { readonly tool?: string; readonly text: string } | null {
  if (call.state !== "running") return null;
  if (call.kind !== "model")
    return call.output ? { text: call.output.trimEnd().slice(-200).split("\n").at(-1) ?? "" } : null;
  const written = Object.values(call.writing).at(-1);
  if (written) return { tool: written.name, text: written.args.slice(-200) };
  const text = call.text || call.reasoning;
  return text ? { text: text.slice(-120) } : null;
}
