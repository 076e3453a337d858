import type { ReactNode } from "react";
import { classes } from "./classes";

interface Props {
  title?: ReactNode;
  /** To the right of the title. */
  actions?: ReactNode;
  children: ReactNode;
  /** Without padding, for a table or an editor. */
  flush?: boolean;
  className?: string;
}

export function Card({ title, actions, children, flush = false, className }: Props) {
  return (
    <section className={classes("overflow-hidden rounded-xl border border-line bg-surface shadow-card", className)}>
      {(title || actions) && (
        <header className="flex min-h-13 flex-wrap items-center justify-between gap-2 border-b border-line px-5 py-2">
          <h2 className="text-sm font-semibold">{title}</h2>
          {actions}
        </header>
      )}
      <div className={flush ? undefined : "p-5"}>{children}</div>
    </section>
  );
}
