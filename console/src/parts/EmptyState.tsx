import type { ReactNode } from "react";
import { Icon, type IconName } from "./Icon";

interface Props {
  icon: IconName;
  title: string;
  /** The only content of the page: its title becomes the heading. */
  isPage?: boolean;
  children?: ReactNode;
}

/** An empty state: what belongs here and how to create it. */
export function EmptyState({ icon, title, isPage = false, children }: Props) {
  const Title = isPage ? "h1" : "p";
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-3 px-6 py-16 text-center">
      <span className="grid size-12 place-items-center rounded-2xl bg-accent-soft text-accent">
        <Icon name={icon} size={24} />
      </span>
      <Title className="text-base font-semibold">{title}</Title>
      {children && <div className="flex flex-col items-center gap-4 text-muted">{children}</div>}
    </div>
  );
}
