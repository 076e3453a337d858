import { Link } from "@tanstack/react-router";
import { useTexts } from "../texts";
import { classes } from "./classes";
import { Icon } from "./Icon";

interface Props {
  sid: string;
  position?: number | undefined;
  /** Instead of one event: all events of these types (comma-separated) that contain this text. */
  type?: string;
  text?: string;
  /** What the events belong to, if the link shows more than one. */
  of?: string;
}

/** Links anything on the page to its event in the log. */
export function EventLink({ sid, position, type, text, of }: Props) {
  const { parts } = useTexts();
  const label = of === undefined ? parts.event(position ?? 0) : parts.eventsOf(of);
  return (
    <Link
      to="/events/$sid"
      params={{ sid }}
      search={{ at: position, type, q: text }}
      aria-label={label}
      title={label}
      className={classes(
        "inline-flex shrink-0 items-center justify-center gap-1 rounded-md text-xs text-muted tabular-nums hover:bg-hover hover:text-ink",
        of === undefined ? "px-1.5 py-0.5" : "size-6",
      )}
    >
      <Icon name="events" size={15} />
      {of === undefined && position}
    </Link>
  );
}
