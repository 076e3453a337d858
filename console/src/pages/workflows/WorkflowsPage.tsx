import type { WorkflowHead } from "@stellwerk/client";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { Badge } from "../../parts/Badge";
import { Button, buttonLook } from "../../parts/Button";
import { Card } from "../../parts/Card";
import { EmptyState } from "../../parts/EmptyState";
import { Icon } from "../../parts/Icon";
import { Loaded } from "../../parts/Loaded";
import { NotAllowed } from "../../parts/NotAllowed";
import { Page } from "../../parts/Page";
import { StatusBadge } from "../../parts/StatusBadge";
import { type Column, Table } from "../../parts/Table";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import { ago } from "../../texts/time";
import { nameOf, PAGE, workflows } from "./listing";
import { RowProgress } from "./RowProgress";

export function WorkflowsPage() {
  const { workflows: words } = useTexts();
  const mayRun = useScope("run");
  const [wanted, setWanted] = useState(PAGE);
  const query = useQuery(workflows(wanted));
  const columns = useColumns();
  return (
    <Page title={words.title} lead={words.lead} actions={<StartLink />}>
      <Loaded query={query}>
        {({ rows, more }) =>
          rows.length ? (
            <div className="space-y-4">
              <Card flush>
                <Table label={words.title} columns={columns} rows={rows} keyOf={(row) => row.id} />
              </Card>
              {more && (
                <Button onClick={() => setWanted(wanted + PAGE)} disabled={query.isPlaceholderData}>
                  {words.older}
                </Button>
              )}
            </div>
          ) : (
            <EmptyState icon="workflows" title={words.none}>
              {mayRun ? <p>{words.noneWhy}</p> : <NotAllowed scope="run" />}
              <StartLink />
            </EmptyState>
          )
        }
      </Loaded>
    </Page>
  );
}

function StartLink() {
  const { workflows: words } = useTexts();
  if (!useScope("run")) return null;
  return (
    <Link to="/workflows/new" className={buttonLook("primary")}>
      <Icon name="plus" size={16} /> {words.startOne}
    </Link>
  );
}

function useColumns(): Column<WorkflowHead>[] {
  const { workflows: words } = useTexts();
  return [
    { id: "name", title: words.name, cell: (row) => <Name workflow={row} /> },
    {
      id: "status",
      title: words.status,
      cell: ({ status, awaitingUserInput, failedTasks }) => (
        <span className="flex flex-wrap gap-1.5">
          <StatusBadge status={status} awaiting={awaitingUserInput} />
          {failedTasks > 0 && <Badge tone="bad">{words.failedTasks(failedTasks)}</Badge>}
        </span>
      ),
    },
    { id: "progress", title: words.progress, wide: true, cell: (row) => <RowProgress workflow={row} /> },
    { id: "round", title: words.round, numeric: true, wide: true, cell: ({ currentRound }) => currentRound },
    { id: "activity", title: words.activity, wide: true, cell: (row) => <Activity workflow={row} /> },
  ];
}

/** On a phone the other columns are shown below it. */
function Name({ workflow }: { workflow: WorkflowHead }) {
  const { workflows: words } = useTexts();
  const { id, name, currentRound } = workflow;
  return (
    <>
      <Link
        to="/workflows/$id"
        params={{ id }}
        className="line-clamp-2 font-medium break-words text-accent hover:underline"
      >
        {name ? nameOf(name) : id}
      </Link>
      <span className="mt-1 block text-muted sm:hidden">
        {words.inRound(currentRound)} · <Activity workflow={workflow} />
      </span>
      <span className="mt-1 block sm:hidden">
        <RowProgress workflow={workflow} />
      </span>
    </>
  );
}

function Activity({ workflow: { lastActivity } }: { workflow: WorkflowHead }) {
  const { language } = useTexts();
  return (
    <time dateTime={lastActivity} className="whitespace-nowrap">
      {ago(Date.parse(lastActivity) / 1000, Date.now() / 1000, language)}
    </time>
  );
}
