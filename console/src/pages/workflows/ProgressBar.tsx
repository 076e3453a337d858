import type { ComponentProps } from "react";
import { classes } from "../../parts/classes";
import { Track } from "../../parts/Track";
import { useTexts } from "../../texts";
import { percent as percentOf } from "../../texts/figures";

type Props = Pick<ComponentProps<typeof Track>, "label" | "percent" | "tone"> & { className?: string };

export function ProgressBar({ className, ...rest }: Props) {
  const { language } = useTexts();
  const { percent } = rest;
  return (
    <div className={classes("flex items-center gap-3", className)}>
      <Track {...rest} className="h-2 flex-1" />
      {percent !== null && <span className="text-sm text-muted tabular-nums">{percentOf(percent, language)}</span>}
    </div>
  );
}
