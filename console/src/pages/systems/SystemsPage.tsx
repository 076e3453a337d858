import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Badge } from "../../parts/Badge";
import { buttonLook } from "../../parts/Button";
import { EmptyState } from "../../parts/EmptyState";
import { Icon } from "../../parts/Icon";
import { Loaded } from "../../parts/Loaded";
import { Page } from "../../parts/Page";
import { systems } from "../../server/queries";
import type { ListedSystem } from "../../server/types";
import { useNow } from "../../state/clock";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import { ago } from "../../texts/time";

export function SystemsPage() {
  const { systems: words } = useTexts();
  const now = useNow();
  const mayRegister = useScope("register");
  return (
    <Page title={words.title} lead={words.lead} actions={<Links />}>
      <Loaded query={useQuery(systems)}>
        {(found) =>
          found.length ? (
            <ul className="grid grid-cols-1 gap-3 sm:grid-cols-2 xl:grid-cols-3">
              {found.map((one) => (
                <li key={one.id} className="flex">
                  <SystemCard system={one} now={now} />
                </li>
              ))}
            </ul>
          ) : (
            <EmptyState icon="systems" title={words.none}>
              {mayRegister && <p>{words.noneWhy}</p>}
            </EmptyState>
          )
        }
      </Loaded>
    </Page>
  );
}

function Links() {
  const { systems: words, jobs } = useTexts();
  const mayRegister = useScope("register");
  return (
    <>
      <Link to="/jobs" className={buttonLook("plain")}>
        <Icon name="clock" size={16} /> {jobs.title}
      </Link>
      {mayRegister && (
        <Link to="/register" className={buttonLook("primary")}>
          <Icon name="plus" size={16} /> {words.register}
        </Link>
      )}
    </>
  );
}

function SystemCard({ system: one, now }: { system: ListedSystem; now: number }) {
  const { systems: words, language } = useTexts();
  return (
    <Link
      to="/systems/$id"
      params={{ id: one.id }}
      className="block w-full rounded-xl border border-line bg-surface p-5 shadow-card transition-colors hover:border-accent"
    >
      <span className="flex items-center justify-between gap-2">
        <span className="truncate font-semibold">{one.id}</span>
        {one.unusable === undefined ? (
          <Badge>{words.version(one.version)}</Badge>
        ) : (
          <Badge tone="bad">{words.unusable}</Badge>
        )}
      </span>
      {one.unusable !== undefined && (
        <span className="mt-1 line-clamp-6 text-sm break-words whitespace-pre-line text-bad">{one.unusable}</span>
      )}
      {one.description && <span className="mt-1 line-clamp-4 text-sm">{one.description}</span>}
      <span className="mt-1 block text-sm text-muted">{words.updated(ago(one.updated_at, now, language))}</span>
    </Link>
  );
}
