import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect } from "react";
import { buttonLook } from "../parts/Button";
import { classes } from "../parts/classes";
import { Icon } from "../parts/Icon";
import { Loaded } from "../parts/Loaded";
import { useKey } from "../server/key";
import { sessions } from "../server/queries";
import { watchSessions } from "../server/sessionList";
import { useScope } from "../state/scopes";
import { whileVisible } from "../state/visible";
import { useTexts } from "../texts";
import { SessionList } from "./SessionList";

/** The sessions by last activity. The variant with a title is always mounted and keeps the list live. */
export function Sidebar({ titled = true }: { titled?: boolean }) {
  const { shell } = useTexts();
  const mayBegin = useScope("run");
  const query = useQuery(sessions);
  const queries = useQueryClient();
  const key = useKey();
  // biome-ignore lint/correctness/useExhaustiveDependencies: another key has other sessions
  useEffect(
    () => (titled ? whileVisible((signal) => watchSessions(queries, signal)) : undefined),
    [titled, queries, key],
  );
  return (
    <div className="flex h-full flex-col">
      <div className="flex items-center justify-between gap-2 py-3 pr-3 pl-5">
        {titled && <h2 className="text-sm font-semibold">{shell.sessions}</h2>}
        {mayBegin && (
          <Link to="/" className={classes(buttonLook("plain"), !titled && "-ml-2 w-full")}>
            <Icon name="plus" size={16} />
            {shell.newSession}
          </Link>
        )}
      </div>
      <div className="min-h-0 flex-1 overflow-y-auto px-2 pb-4">
        <Loaded query={query}>{(found) => <SessionList sessions={found} />}</Loaded>
      </div>
    </div>
  );
}
