import { Icon } from "../../parts/Icon";
import { useTexts } from "../../texts";

/** Leads to the place in the log where something began. */
export function EventsLink({ sid, at, of }: { sid: string; at: number; of: string }) {
  const { panel } = useTexts();
  return (
    <a
      href={`#/events/${encodeURIComponent(sid)}?at=${at}`}
      aria-label={panel.eventsOf(of)}
      title={panel.eventsOf(of)}
      className="grid size-6 shrink-0 place-items-center rounded-md text-muted hover:bg-hover hover:text-ink"
    >
      <Icon name="events" size={15} />
    </a>
  );
}
