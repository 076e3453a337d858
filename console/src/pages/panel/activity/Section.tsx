import type { ReactNode } from "react";

export function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h4 className="mb-1 text-xs font-semibold text-muted">{title}</h4>
      {children}
    </section>
  );
}
