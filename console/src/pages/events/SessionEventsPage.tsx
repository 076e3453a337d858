import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useDeferredValue, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { Badge } from "../../parts/Badge";
import { Button, buttonLook } from "../../parts/Button";
import { CopyableId } from "../../parts/CopyableId";
import { useCopy } from "../../parts/copy";
import { EmptyState } from "../../parts/EmptyState";
import { ErrorNote, errorText } from "../../parts/ErrorNote";
import { save } from "../../parts/files";
import { Icon } from "../../parts/Icon";
import { useToast } from "../../parts/Toast";
import { useAction } from "../../server/action";
import { keyRefused, useKey } from "../../server/key";
import { session } from "../../server/queries";
import { useClient } from "../../state/client";
import { useTexts } from "../../texts";
import { EventDetails } from "./EventDetails";
import { EventList } from "./EventList";
import { curlOf, exported } from "./export";
import { Filters } from "./Filters";
import { type EventSearch, filterOf, Sieve } from "./filter";
import { WholeLog } from "./store";

export function SessionEventsPage() {
  const { sid } = useParams({ from: "/events/$sid" });
  return <EventsOf key={sid} sid={sid} />;
}

/** The raw log of a session, filtered and live. */
function EventsOf({ sid }: { sid: string }) {
  const { events: words, chat } = useTexts();
  const search = useSearch({ from: "/events/$sid" });
  const navigate = useNavigate();
  const change = useCallback(
    (news: EventSearch) =>
      void navigate({
        to: "/events/$sid",
        params: { sid },
        search: (before: EventSearch) => ({ ...before, ...news }),
        replace: true,
      }),
    [navigate, sid],
  );
  const choose = useCallback((at: number) => change({ at }), [change]);

  const { type, agent, at, profile = "user" } = search;
  const client = useClient();
  const log = useMemo(() => new WholeLog(client, sid, profile), [client, sid, profile]);
  const shown = useSyncExternalStore(log.subscribe, log.get);
  const key = useKey();
  useEffect(() => {
    if (shown.problem?.status === 401) keyRefused(key);
  }, [shown.problem, key]);
  const [text, setText] = useState(search.q ?? "");
  const q = useDeferredValue(text);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another log needs a new filter
  const sieve = useMemo(() => new Sieve(filterOf({ type, agent, q })), [log, type, agent, q]);
  const rows = sieve.shake(shown.envelopes);
  const write = (next: string) => {
    setText(next);
    change({ q: next || undefined });
  };
  const clear = () => {
    setText("");
    change({ type: undefined, agent: undefined, q: undefined });
  };
  const title = useHeading(sid);
  useEffect(() => {
    document.title = `${title} · Stellwerk`;
  }, [title]);
  return (
    <div className="flex h-full min-h-96 flex-col gap-3 px-4 py-4 sm:px-6">
      <header className="flex items-center justify-between gap-x-6 gap-y-2 max-sm:flex-wrap">
        <div className="min-w-0 max-sm:flex-1">
          <h1 className="truncate text-lg font-semibold" title={title}>
            {title}
          </h1>
          <CopyableId id={sid} />
        </div>
        <span role="status" className="mr-auto min-w-0 truncate max-sm:order-last max-sm:w-full">
          {shown.isLost && <Badge tone="warn">{chat.reconnecting}</Badge>}
        </span>
        <Actions sid={sid} profile={profile} />
      </header>
      <Filters shown={shown} search={search} text={text} onWrite={write} onChange={change} />
      {shown.problem !== undefined && <ErrorNote error={shown.problem} onRetry={() => log.retry()} />}
      {shown.length === 0 && shown.state === "live" && <EmptyState icon="events" title={words.none} />}
      {shown.length > 0 && (
        <div className="flex min-h-0 flex-1 flex-col gap-3 lg:flex-row">
          <EventList
            key={profile}
            rows={rows}
            count={rows.length}
            of={shown.length}
            live={shown.state === "live"}
            at={at}
            onChoose={choose}
          />
          {at !== undefined && (
            <EventDetails {...{ sid, at, shown, rows, profile }} onClear={clear} onChange={change} />
          )}
        </div>
      )}
    </div>
  );
}

/** The title of a session; without one, its system. */
function useHeading(sid: string): string {
  const { events: words, chat } = useTexts();
  const head = useQuery(session(sid)).data;
  return head ? words.of(head.title ?? chat.session(head.agent_system_id)) : words.title;
}

function Actions({ sid, profile }: { sid: string; profile: "user" | "debug" }) {
  const texts = useTexts();
  const { events: words } = texts;
  const say = useToast();
  const copy = useCopy();
  const client = useClient();
  const keyed = useKey() !== null;
  const exporting = useAction({
    mutationFn: () => exported(client, sid, profile),
    onSuccess: (blob) => save(blob, `${sid}.jsonl`),
    onError: (error) => say(errorText(error, texts), true),
  });
  return (
    <div className="flex shrink-0 gap-1">
      <Button look="quiet" title={words.copyCurl} onClick={() => copy(curlOf(sid, profile, keyed))}>
        <Icon name="copy" /> <span className="max-md:sr-only">{words.copyCurl}</span>
      </Button>
      <Button look="quiet" title={words.export} disabled={exporting.isPending} onClick={() => exporting.mutate()}>
        <Icon name="download" /> <span className="max-md:sr-only">{words.export}</span>
      </Button>
      <Link to="/chat/$sid" params={{ sid }} title={words.toChat} className={buttonLook("quiet")}>
        <Icon name="chat" /> <span className="max-md:sr-only">{words.toChat}</span>
      </Link>
    </div>
  );
}
