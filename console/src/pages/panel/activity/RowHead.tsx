import type { ReactNode } from "react";
import { classes } from "../../../parts/classes";
import { EventLink } from "../../../parts/EventLink";
import { Icon } from "../../../parts/Icon";

interface Props {
  sid: string;
  /** Of the row, by which the arrow keys find it. */
  id: string;
  open: boolean;
  onOpen: (key: string, open: boolean) => void;
  /** Where in the log it began, and what is called so. */
  at: number;
  of: string;
  /** What stands between the button and the link to the log. */
  beside?: ReactNode;
  children: ReactNode;
}

/** The line of a round or of a call: it folds what is below it, and leads to where the log tells of it. */
export function RowHead({ sid, id, open, onOpen, at, of, beside, children }: Props) {
  return (
    <div className="flex items-center gap-1">
      <button
        type="button"
        data-row={id}
        aria-expanded={open}
        onClick={() => onOpen(id, !open)}
        className="flex min-w-0 flex-1 items-center gap-2 py-1.5 pl-3 text-left text-sm -outline-offset-2"
      >
        <span className={classes("text-muted transition-transform", open && "rotate-90")}>
          <Icon name="chevron" size={15} />
        </span>
        {children}
      </button>
      {beside}
      <EventLink sid={sid} position={at} of={of} />
    </div>
  );
}
