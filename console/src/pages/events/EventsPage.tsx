import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Card } from "../../parts/Card";
import { EmptyState } from "../../parts/EmptyState";
import { Loaded } from "../../parts/Loaded";
import { Page } from "../../parts/Page";
import { StatusBadge } from "../../parts/StatusBadge";
import { type Column, Table } from "../../parts/Table";
import { sessions } from "../../server/queries";
import type { Session } from "../../server/types";
import { useTexts } from "../../texts";
import { number } from "../../texts/figures";
import { moment } from "../../texts/time";

/** The choice of a session. */
export function EventsPage() {
  const { events: words } = useTexts();
  const columns = useColumns();
  return (
    <Page title={words.title} lead={words.lead}>
      <Loaded query={useQuery(sessions)}>
        {(found) =>
          found.length ? (
            <Card flush>
              <Table label={words.choose} columns={columns} rows={found} keyOf={({ id }) => id} />
            </Card>
          ) : (
            <EmptyState icon="events" title={words.noSession}>
              <p>{words.noSessionWhy}</p>
            </EmptyState>
          )
        }
      </Loaded>
    </Page>
  );
}

function useColumns(): Column<Session>[] {
  const { events: words, language } = useTexts();
  return [
    {
      id: "session",
      title: words.session,
      cell: (session) => <Name session={session} />,
    },
    { id: "system", title: words.system, wide: true, cell: (session) => session.agent_system_id },
    {
      id: "status",
      title: words.status,
      cell: (session) => <StatusBadge status={session.status} awaiting={session.awaiting_user_input} />,
    },
    { id: "events", title: words.title, numeric: true, wide: true, cell: ({ position }) => number(position, language) },
    {
      id: "begun",
      title: words.time,
      wide: true,
      cell: ({ created_at }) => <span className="whitespace-nowrap">{moment(created_at, language)}</span>,
    },
  ];
}

/** On a phone the other columns are shown below it. */
function Name({ session: { id, title, agent_system_id, created_at } }: { session: Session }) {
  const { shell, language } = useTexts();
  return (
    <>
      <Link
        to="/events/$sid"
        params={{ sid: id }}
        className="line-clamp-2 max-w-md font-medium break-words text-accent hover:underline"
      >
        {title ?? shell.untitled}
      </Link>
      <span className="mt-0.5 block font-mono text-xs break-all text-muted">{id}</span>
      <span className="mt-1 block text-muted sm:hidden">
        {agent_system_id} · {moment(created_at, language)}
      </span>
    </>
  );
}
