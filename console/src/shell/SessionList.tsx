import { Link } from "@tanstack/react-router";
import { Button } from "../parts/Button";
import { classes } from "../parts/classes";
import { ErrorNote } from "../parts/ErrorNote";
import { StatusBadge } from "../parts/StatusBadge";
import { useOlderSessions } from "../server/olderSessions";
import type { Session } from "../server/types";
import { useNow } from "../state/clock";
import { useTexts } from "../texts";
import { ago } from "../texts/time";

/** The live sessions and, on request, older ones. */
export function SessionList({ sessions: live }: { sessions: readonly Session[] }) {
  const { shell } = useTexts();
  const older = useOlderSessions(live);
  const now = useNow();
  if (!live.length) return <p className="px-2 py-3 text-sm text-muted">{shell.noSessions}</p>;
  return (
    <>
      <ul className="space-y-0.5">
        {[...live, ...older.sessions].map((session) => (
          <li key={session.id}>
            <SessionLink session={session} now={now} />
          </li>
        ))}
      </ul>
      {older.error ? (
        <ErrorNote error={older.error} onRetry={older.show} />
      ) : (
        older.more && (
          <Button look="quiet" className="mt-1 w-full" disabled={older.isReading} onClick={older.show}>
            {shell.older}
          </Button>
        )
      )}
    </>
  );
}

function SessionLink({ session, now }: { session: Session; now: number }) {
  const { shell, chat, language } = useTexts();
  return (
    <Link
      to="/chat/$sid"
      params={{ sid: session.id }}
      className="block rounded-lg px-3 py-2 -outline-offset-2 hover:bg-hover"
      activeProps={{ className: "bg-accent-soft hover:bg-accent-soft", "aria-current": "page" }}
    >
      <span className={classes("block truncate text-sm font-medium", !session.title && "text-muted")}>
        {session.title ?? (session.round > 0 ? chat.session(session.agent_system_id) : shell.untitled)}
      </span>
      <span className="mt-0.5 flex items-center gap-2 text-xs text-muted">
        <span className="truncate">{session.agent_system_id}</span>
        <span className="shrink-0">{ago(session.last_activity_at, now, language, "short")}</span>
        {session.user_id && <span className="flex-1 truncate">{session.user_id}</span>}
        <span className="ml-auto shrink-0">
          <StatusBadge status={session.status} awaiting={session.awaiting_user_input} />
        </span>
      </span>
    </Link>
  );
}
