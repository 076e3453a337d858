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
import { moment } from "../../texts/time";

/** Which log is it to be? */
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
      cell: ({ id }) => (
        <Link to="/events/$sid" params={{ sid: id }} className="font-mono text-accent underline underline-offset-2">
          {id}
        </Link>
      ),
    },
    { id: "system", title: words.system, cell: (session) => session.agent_system_id },
    {
      id: "status",
      title: words.status,
      cell: (session) => <StatusBadge status={session.status} awaiting={session.awaiting_user_input} />,
    },
    { id: "events", title: words.title, numeric: true, cell: ({ position }) => position.toLocaleString(language) },
    {
      id: "begun",
      title: words.time,
      cell: ({ created_at }) => <span className="whitespace-nowrap">{moment(created_at, language)}</span>,
    },
  ];
}
