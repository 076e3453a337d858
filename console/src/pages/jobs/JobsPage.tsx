import type { Cron, DelayedRun, WebhookDelivery } from "@stellwerk/client";
import { type UseQueryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Badge } from "../../parts/Badge";
import { Button } from "../../parts/Button";
import { Card } from "../../parts/Card";
import { ErrorNote } from "../../parts/ErrorNote";
import { Loaded } from "../../parts/Loaded";
import { Page } from "../../parts/Page";
import { useAction } from "../../server/action";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import { moment } from "../../texts/time";
import { crons, delayedRuns, deliveries, enable, retry } from "./queries";

/** Runs that no client waits for: crons, delayed runs, and what was reported to webhooks. */
export function JobsPage() {
  const { jobs: words } = useTexts();
  return (
    <Page title={words.title} lead={words.lead}>
      <div className="space-y-6">
        <List title={words.crons} none={words.noCrons} query={crons} row={(cron) => <CronRow cron={cron} />} />
        <List
          title={words.delayed}
          none={words.noDelayed}
          query={delayedRuns}
          row={(run) => <DelayedRow run={run} />}
          idOf={(run) => run.run_id}
        />
        <List
          title={words.deliveries}
          none={words.noDeliveries}
          query={deliveries}
          row={(delivery) => <DeliveryRow delivery={delivery} />}
        />
      </div>
    </Page>
  );
}

interface ListProps<Item> {
  title: string;
  none: string;
  query: UseQueryOptions<Item[], Error, Item[], string[]>;
  row: (item: Item) => ReactNode;
  idOf?: (item: Item) => string;
}

function List<Item>({ title, none, query, row, idOf = (item) => (item as { id: string }).id }: ListProps<Item>) {
  return (
    <Card title={title} flush>
      <Loaded query={useQuery(query)}>
        {(found) =>
          found.length ? (
            <ul className="divide-y divide-line">
              {found.map((item) => (
                <li key={idOf(item)} className="px-5 py-3 text-sm">
                  {row(item)}
                </li>
              ))}
            </ul>
          ) : (
            <p className="p-5 text-sm text-muted">{none}</p>
          )
        }
      </Loaded>
    </Card>
  );
}

interface RowProps {
  name: ReactNode;
  badge?: ReactNode;
  action?: ReactNode;
  children: ReactNode;
}

function Row({ name, badge, action, children }: RowProps) {
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1.5">
      <div className="min-w-0 flex-1 basis-72 break-words text-muted">
        <div className="flex flex-wrap items-center gap-2 font-medium text-ink">
          <span className="min-w-0">{name}</span> {badge}
        </div>
        {children}
      </div>
      {action}
    </div>
  );
}

function SessionLink({ sid }: { sid: string }) {
  const { jobs: words } = useTexts();
  return (
    <Link to="/chat/$sid" params={{ sid }} className="text-accent underline">
      {words.session}
    </Link>
  );
}

function CronRow({ cron }: { cron: Cron }) {
  const { jobs: words, language } = useTexts();
  const mayRun = useScope("run");
  const again = useAgain(crons.queryKey, (enabled: boolean) => enable(cron, enabled));
  const { enabled, last } = cron;
  const change = mayRun && (
    <Button onClick={() => again.mutate(!enabled)} disabled={again.isPending}>
      {enabled ? words.pause : words.resume}
    </Button>
  );
  return (
    <Row
      name={<span className="font-mono">{cron.schedule}</span>}
      badge={<Badge tone={enabled ? "neutral" : "warn"}>{enabled ? cron.timezone : words.paused}</Badge>}
      action={change}
    >
      <p>
        {cron.agent_system_id ?? (cron.session_id && <SessionLink sid={cron.session_id} />)}
        {cron.message.text ? `: ${cron.message.text}` : ""}
      </p>
      {cron.next_tick !== null && <p>{words.next(moment(cron.next_tick, language))}</p>}
      {last && (
        <p>
          {words.last(moment(last.tick, language))} {last.session_id && <SessionLink sid={last.session_id} />}{" "}
          {last.error && <span className="text-bad">{last.error}</span>}
        </p>
      )}
      {again.error && <ErrorNote error={again.error} />}
    </Row>
  );
}

function DelayedRow({ run }: { run: DelayedRun }) {
  const { jobs: words, language } = useTexts();
  return (
    <Row name={run.agent_system_id}>
      <p>
        {words.next(moment(run.start_at, language))} <SessionLink sid={run.session_id} />
      </p>
    </Row>
  );
}

const TONES = { pending: "warn", delivered: "good", failed: "bad" } as const;

function DeliveryRow({ delivery }: { delivery: WebhookDelivery }) {
  const { jobs: words, language } = useTexts();
  const mayRun = useScope("run");
  const again = useAgain(deliveries.queryKey, () => retry(delivery));
  const { state, attempts, outcome, created_at } = delivery;
  const resend = mayRun && state === "failed" && (
    <Button onClick={() => again.mutate()} disabled={again.isPending}>
      {words.sendAgain}
    </Button>
  );
  return (
    <Row name={delivery.url} badge={<Badge tone={TONES[state]}>{words.states[state]}</Badge>} action={resend}>
      <p>
        {moment(created_at, language)} · {words.attempts(attempts)}
        {outcome ? ` · ${outcome}` : ""} <SessionLink sid={delivery.session_id} />
      </p>
      {again.error && <ErrorNote error={again.error} />}
    </Row>
  );
}

/** An action after which its list is read again. */
function useAgain<V = void>(queryKey: readonly string[], mutationFn: (input: V) => Promise<unknown>) {
  const client = useQueryClient();
  return useAction({ mutationFn, onSettled: () => client.invalidateQueries({ queryKey }) });
}
