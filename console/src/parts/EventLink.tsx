import { Link } from "@tanstack/react-router";
import { useTexts } from "../texts";
import { Icon } from "./Icon";

/** Leads from anything that is shown to the event that says so. */
export function EventLink({ sid, position }: { sid: string; position: number }) {
  const { parts } = useTexts();
  return (
    <Link
      to="/events/$sid"
      params={{ sid }}
      search={{ at: position }}
      title={parts.event(position)}
      className="inline-flex items-center gap-1 rounded-md px-1.5 py-0.5 text-xs text-muted tabular-nums hover:bg-hover hover:text-ink"
    >
      <Icon name="events" size={14} />
      <span className="sr-only">{parts.event(position)}</span>
      <span aria-hidden>{position}</span>
    </Link>
  );
}
