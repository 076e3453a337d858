import { type ReactNode, useState } from "react";
import { classes } from "./classes";
import { Icon } from "./Icon";

interface Props {
  summary: ReactNode;
  children: ReactNode;
  startsOpen?: boolean;
  className?: string;
}

/** Folded until somebody wants it; what is inside is not even built before. */
export function Disclosure({ summary, children, startsOpen = false, className }: Props) {
  const [open, setOpen] = useState(startsOpen);
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)} className={className}>
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
