import type { Session } from "@stellwerk/client";
import { useSession } from "@stellwerk/client/react";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { lazy, Suspense, useDeferredValue, useEffect, useState } from "react";
import { buttonLook } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { EmptyState } from "../../parts/EmptyState";
import { ErrorNote } from "../../parts/ErrorNote";
import { NotAllowed } from "../../parts/NotAllowed";
import { patient } from "../../server/lazyChunks";
import { session as head, sessions, systems } from "../../server/queries";
import { useClient } from "../../state/client";
import { useConnection } from "../../state/connection";
import { useMedia } from "../../state/media";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import { Composer } from "./Composer";
import { Conversation } from "./Conversation";
import { useWanted } from "./input/useForms";
import { SessionHeader } from "./SessionHeader";
import { useSending } from "./sending";

const SidePanel = lazy(patient(async () => ({ default: (await import("../panel/SidePanel")).SidePanel })));
const ReplayBar = lazy(patient(async () => ({ default: (await import("../replay/ReplayBar")).ReplayBar })));

/** How long to wait for the stored events after connecting, before a partial session is shown. */
const PATIENCE = 1_500;

export function SessionPage() {
  const { sid } = useParams({ from: "/chat/$sid" });
  return <OneSession key={sid} sid={sid} />;
}

function OneSession({ sid }: { sid: string }) {
  const { chat } = useTexts();
  const { session: live, connection, problem } = useSession(useClient(), sid);
  const line = useConnection(connection);
  const [past, setPast] = useState<Session | null>(null);
  const [isPanelOpen, setPanelOpen] = useState(false);
  const isWide = useMedia("(width >= 80rem)"); // xl
  const query = useQuery(head(sid));
  const sending = useSending(sid, live);
  const mayWrite = useScope("run");
  const shown = useDeferredValue(past ?? live); // many envelopes cause one render
  const isWhole = useWhole(shown.position, query.data?.position, line === "open");
  const systemId = query.data?.agent_system_id ?? live.runs.at(-1)?.system;
  const system = systemId ?? "…";
  const about = useQuery({ ...systems, select: (all) => all.find(({ id }) => id === system)?.description }).data ?? "";
  const takesText = useWanted(systemId).takesText;
  const listed = useTitle(sid);
  const title = listed === undefined ? (query.data?.title ?? null) : listed;
  if (problem?.status === 404)
    return (
      <EmptyState icon="chat" title={chat.gone} isPage>
        <p>{chat.goneWhy}</p>
        <Link to="/" className={buttonLook("plain")}>
          {chat.title}
        </Link>
      </EmptyState>
    );
  return (
    <div className="flex h-full min-h-0 flex-col">
      <SessionHeader
        sid={sid}
        system={system}
        title={title}
        session={shown}
        isKnown={isWhole}
        isLost={line === "waiting"}
        onPanel={() => setPanelOpen(true)}
      />
      {problem && (
        <div className="px-4 pt-4 sm:px-6">
          <ErrorNote error={problem} />
        </div>
      )}
      <div className="flex min-h-0 flex-1">
        <div className="flex min-w-0 flex-1 flex-col">
          <Conversation
            sid={sid}
            session={shown}
            about={about}
            takesText={takesText}
            isWhole={isWhole}
            isPast={past !== null}
            sending={sending}
          />
          <Suspense>
            <ReplayBar sid={sid} live={live} onShow={setPast} />
          </Suspense>
          {mayWrite ? (
            <Composer sid={sid} system={systemId} session={live} isPast={past !== null} sending={sending} />
          ) : (
            <div className="border-t border-line px-6 py-4 text-center">
              <NotAllowed scope="run" />
            </div>
          )}
        </div>
        {isWide && (
          <aside
            aria-label={chat.details}
            className="w-md shrink-0 overflow-y-auto border-l border-line bg-surface empty:hidden"
          >
            <Suspense>
              <SidePanel sid={sid} system={systemId} session={shown} isPast={past !== null} />
            </Suspense>
          </aside>
        )}
      </div>
      <Dialog open={isPanelOpen && !isWide} onClose={() => setPanelOpen(false)} title={chat.details} place="right">
        <Suspense>
          <SidePanel sid={sid} system={systemId} session={shown} isPast={past !== null} />
        </Suspense>
      </Dialog>
    </div>
  );
}

/** The title in the live list; undefined if the session is not listed, null if it has none. */
function useTitle(sid: string): string | null | undefined {
  return useQuery({ ...sessions, select: (all) => all.find(({ id }) => id === sid)?.title }).data;
}

/** Whether all events stored when the page was opened have arrived; the last ones may be hidden from this profile. */
function useWhole(position: number, stored: number | undefined, isOpen: boolean): boolean {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    if (!isOpen) return;
    const timer = setTimeout(() => setLate(true), PATIENCE);
    return () => clearTimeout(timer);
  }, [isOpen]);
  const [isWhole, setWhole] = useState(false);
  const now = isWhole || isLate || (stored !== undefined && position >= stored);
  if (now && !isWhole) setWhole(true);
  return now;
}
