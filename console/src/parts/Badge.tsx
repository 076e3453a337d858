import type { ReactNode } from "react";
import { classes } from "./classes";

const TONES = {
  neutral: "bg-sunken text-muted",
  accent: "bg-accent-soft text-accent-strong",
  good: "bg-good-soft text-good",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
};

export type Tone = keyof typeof TONES;

export function Badge({
  tone = "neutral",
  children,
  mono = false,
}: {
  tone?: Tone;
  children: ReactNode;
  mono?: boolean;
}) {
  const look = "inline-flex items-center gap-1.5 rounded-full px-2 py-0.5 text-xs font-medium whitespace-nowrap";
  return <span className={classes(look, TONES[tone], mono && "font-mono")}>{children}</span>;
}
