import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect } from "react";
import { buttonLook } from "../parts/Button";
import { classes } from "../parts/classes";
import { Icon } from "../parts/Icon";
import { Loaded } from "../parts/Loaded";
import { StatusBadge } from "../parts/StatusBadge";
import { useKey } from "../server/key";
import { sessions } from "../server/queries";
import type { Session } from "../server/types";
import { watchSessions } from "../server/watching";
import { whileVisible } from "../state/visible";
import { useTexts } from "../texts";
import { ago } from "../texts/time";

/** The sessions, newest first. The one with a title is always there, and keeps them live. */
export function Sidebar({ titled = true }: { titled?: boolean }) {
  const { shell } = useTexts();
  const query = useQuery(sessions);
  const queries = useQueryClient();
  const key = useKey();
  // biome-ignore lint/correctness/useExhaustiveDependencies: with another key there are other sessions
  useEffect(
    () => (titled ? whileVisible((signal) => watchSessions(queries, signal)) : undefined),
    [titled, queries, key],
  );
  return (
    <div className="flex h-full flex-col">
      <div className="flex items-center justify-between gap-2 py-3 pr-3 pl-5">
        {titled && <h2 className="text-sm font-semibold">{shell.sessions}</h2>}
        <Link to="/" className={classes(buttonLook("plain"), !titled && "-ml-2 w-full")}>
          <Icon name="plus" size={16} />
          {shell.newSession}
        </Link>
      </div>
      <div className="min-h-0 flex-1 overflow-y-auto px-2 pb-4">
        <Loaded query={query}>{(found) => <SessionList sessions={found} />}</Loaded>
      </div>
    </div>
  );
}

function SessionList({ sessions: found }: { sessions: readonly Session[] }) {
  const { shell } = useTexts();
  if (!found.length) return <p className="px-2 py-3 text-sm text-muted">{shell.noSessions}</p>;
  return (
    <ul className="space-y-0.5">
      {found.map((session) => (
        <li key={session.id}>
          <SessionLink session={session} />
        </li>
      ))}
    </ul>
  );
}

function SessionLink({ session }: { session: Session }) {
  const { language } = useTexts();
  return (
    <Link
      to="/chat/$sid"
      params={{ sid: session.id }}
      className="block rounded-lg px-3 py-2 -outline-offset-2 hover:bg-hover"
      activeProps={{ className: "bg-accent-soft hover:bg-accent-soft", "aria-current": "page" }}
    >
      <span className="flex items-center justify-between gap-2">
        <span className="truncate text-sm font-medium">{session.agent_system_id}</span>
        <StatusBadge status={session.status} awaiting={session.awaiting_user_input} />
      </span>
      <span className="flex gap-2 text-xs text-muted">
        <span>{ago(session.created_at, Date.now() / 1000, language)}</span>
        {session.user_id && <span className="truncate">{session.user_id}</span>}
      </span>
    </Link>
  );
}
