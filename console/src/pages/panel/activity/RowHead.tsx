import type { ReactNode } from "react";
import { classes } from "../../../parts/classes";
import { EventLink } from "../../../parts/EventLink";
import { Icon } from "../../../parts/Icon";

interface Props {
  sid: string;
  /** The key of the row, used by the arrow keys. */
  id: string;
  open: boolean;
  onOpen: (key: string, open: boolean) => void;
  /** Its start in the log, and its name. */
  at: number;
  of: string;
  /** Content between the button and the link to the log. */
  beside?: ReactNode;
  children: ReactNode;
}

/** The header of a round or a call: collapses its content and links to the log. */
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
