import type { Session } from "@stellwerk/client";
import { useSession } from "@stellwerk/client/react";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { lazy, Suspense, useDeferredValue, useEffect, useState } from "react";
import { buttonLook } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { EmptyState } from "../../parts/EmptyState";
import { MayNot } from "../../parts/MayNot";
import { Trouble } from "../../parts/Trouble";
import { patient } from "../../server/chunks";
import { session as head, sessions, systems } from "../../server/queries";
import { useClient } from "../../state/client";
import { useLine } from "../../state/line";
import { useMay } from "../../state/may";
import { useMedia } from "../../state/media";
import { useTexts } from "../../texts";
import { Composer } from "./Composer";
import { Conversation } from "./Conversation";
import { SessionHeader } from "./SessionHeader";
import { useSending } from "./sending";

const SidePanel = lazy(patient(async () => ({ default: (await import("../panel/SidePanel")).SidePanel })));
const ReplayBar = lazy(patient(async () => ({ default: (await import("../replay/ReplayBar")).ReplayBar })));

/** How long one waits for all that is stored, once the line is open, before what has come is shown. */
const PATIENCE = 1_500;

export function SessionPage() {
  const { sid } = useParams({ from: "/chat/$sid" });
  return <OneSession key={sid} sid={sid} />;
}

function OneSession({ sid }: { sid: string }) {
  const { chat } = useTexts();
  const { session: live, connection, problem } = useSession(useClient(), sid);
  const line = useLine(connection);
  const [past, setPast] = useState<Session | null>(null);
  const [isPanelOpen, setPanelOpen] = useState(false);
  const isWide = useMedia("(width >= 80rem)"); // xl
  const query = useQuery(head(sid));
  const sending = useSending(sid, live);
  const mayWrite = useMay("run");
  const shown = useDeferredValue(past ?? live); // many envelopes at once are drawn once
  const isWhole = useWhole(shown.position, query.data?.position, line === "open");
  const system = query.data?.agent_system_id ?? live.runs.at(-1)?.system ?? "…";
  const about = useQuery({ ...systems, select: (all) => all.find(({ id }) => id === system)?.description }).data ?? "";
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
          <Trouble error={problem} />
        </div>
      )}
      <div className="flex min-h-0 flex-1">
        <div className="flex min-w-0 flex-1 flex-col">
          <Conversation
            sid={sid}
            session={shown}
            about={about}
            isWhole={isWhole}
            isPast={past !== null}
            sending={sending}
          />
          <Suspense>
            <ReplayBar sid={sid} live={live} onShow={setPast} />
          </Suspense>
          {mayWrite ? (
            <Composer sid={sid} session={live} isPast={past !== null} sending={sending} />
          ) : (
            <div className="border-t border-line px-6 py-4 text-center">
              <MayNot scope="run" />
            </div>
          )}
        </div>
        {isWide && (
          <aside
            aria-label={chat.details}
            className="w-md shrink-0 overflow-y-auto border-l border-line bg-surface empty:hidden"
          >
            <Suspense>
              <SidePanel sid={sid} session={shown} />
            </Suspense>
          </aside>
        )}
      </div>
      <Dialog open={isPanelOpen && !isWide} onClose={() => setPanelOpen(false)} title={chat.details} place="right">
        <Suspense>
          <SidePanel sid={sid} session={shown} />
        </Suspense>
      </Dialog>
    </div>
  );
}

/** As the list says, which is kept live; undefined if it is not in there, null if it has none. */
function useTitle(sid: string): string | null | undefined {
  return useQuery({ ...sessions, select: (all) => all.find(({ id }) => id === sid)?.title }).data;
}

/** Whether all has come that was stored when the page was opened; what is hidden from us may be the last of it. */
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
