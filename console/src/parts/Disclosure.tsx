import { type ReactNode, useState } from "react";
import { classes } from "./classes";
import { Icon } from "./Icon";

interface Props {
  summary: ReactNode;
  children: ReactNode;
  /** Unique; restores the open state after the row was unmounted by scrolling. */
  memory?: string;
  className?: string;
}

const opened = new Set<string>();

/** Collapsed content, not rendered before it is opened. */
export function Disclosure({ summary, children, memory, className }: Props) {
  const [open, setOpen] = useState(memory !== undefined && opened.has(memory));
  const toggle = (now: boolean) => {
    setOpen(now);
    if (memory === undefined) return;
    if (now) opened.add(memory);
    else opened.delete(memory);
  };
  return (
    <details open={open} onToggle={(event) => toggle(event.currentTarget.open)} className={className}>
      <summary className="flex list-none items-center gap-2 rounded-lg px-2 py-1.5 hover:bg-hover [&::-webkit-details-marker]:hidden">
        <span className={classes("text-muted transition-transform", open && "rotate-90")}>
          <Icon name="chevron" size={16} />
        </span>
        {summary}
      </summary>
      {open && children}
    </details>
  );
}
