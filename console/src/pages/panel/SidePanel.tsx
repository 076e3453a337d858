import type { Session } from "@stellwerk/client";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useCallback, useMemo, useState } from "react";
import { EmptyState } from "../../parts/EmptyState";
import { Tabs } from "../../parts/Tabs";
import { system as systemOf } from "../../server/queries";
import type { Agent } from "../../server/types";
import { useClient } from "../../state/client";
import { useTexts } from "../../texts";
import { Activity } from "./activity/Activity";
import type { Openness } from "./activity/tree";
import { Checklist } from "./Checklist";
import { Documents } from "./Documents";
import { Log } from "./Log";
import { ProgressBar } from "./ProgressBar";
import { GraphState } from "./state/GraphState";
import { States } from "./state/States";
import { Usage } from "./Usage";
import { Updates, UpdatesReader } from "./updates";

type Tab = "activity" | "checklist" | "state" | "documents" | "progress" | "usage";

interface Props {
  sid: string;
  /** The agent system, once it is known. */
  system: string | undefined;
  session: Session;
  /** In replay. */
  isPast: boolean;
}

/** The panel next to the conversation: calls, tasks, files, progress. Fills its container. */
export function SidePanel({ sid, system, session, isPast }: Props) {
  const { panel } = useTexts();
  const graph = useGraph(system);
  const [tab, setTab] = useState<string>("activity");
  const [openness, setOpenness] = useState<Openness>({});
  const onOpen = useCallback((key: string, open: boolean) => setOpenness((known) => ({ ...known, [key]: open })), []);
  const client = useClient();
  const updates = useMemo(() => new UpdatesReader(client, sid), [client, sid]);
  const { checklist, documents, logs, runs, usage } = session;
  const over = checklist.tasks.filter(({ status }) => status === "completed" || status === "skipped").length;
  const of = (id: Tab, is: boolean, content: ReactNode, count = "") => ({
    id,
    label: <Label text={panel.tabs[id]} count={count} />,
    content: is ? content : <Nothing tab={id} />,
  });
  const isGraph = graph !== undefined;
  const activity = <Activity {...{ sid, session, isGraph, isPast, openness, onOpen }} />;
  const nothing = <Nothing tab="state" />;
  const state = graph ? (
    <GraphState {...{ sid, session, graph, isPast, nothing }} />
  ) : (
    <States {...{ sid, session, nothing }} />
  );
  return (
    <Updates value={updates}>
      <div className="flex h-full min-h-0 flex-col">
        <ProgressBar session={session} />
        <div className="min-h-0 flex-1">
          <Tabs
            filling
            label={panel.views}
            value={tab}
            onChange={setTab}
            tabs={[
              of("activity", runs.length > 0, activity),
              of(
                "checklist",
                checklist.version > 0,
                <Checklist sid={sid} checklist={checklist} at={session.states.checklist?.position ?? 1} />,
                checklist.tasks.length > 0 ? `${over}/${checklist.tasks.length}` : "",
              ),
              of("state", true, state),
              of(
                "documents",
                documents.length > 0 || checklist.version > 0,
                <Documents sid={sid} session={session} />,
                documents.length > 0 ? String(documents.length) : "",
              ),
              of("progress", logs.length > 0, <Log sid={sid} logs={logs} />),
              of("usage", runs.length > 0, <Usage sid={sid} usage={usage} />),
            ]}
          />
        </div>
      </div>
    </Updates>
  );
}

/** The graph of the operator that a system is; undefined for agents. */
function useGraph(system: string | undefined): Agent | undefined {
  const { data } = useQuery({ ...systemOf(system ?? ""), enabled: system !== undefined, staleTime: 60_000 });
  return data?.agents.find(({ id, kind }) => id === data.orchestrator && kind === "graph");
}

function Label({ text, count }: { text: string; count: string }) {
  return (
    <>
      {text}
      {count && " "}
      {count && <span className="text-xs font-normal text-muted tabular-nums">{count}</span>}
    </>
  );
}

function Nothing({ tab }: { tab: Tab }) {
  const { panel } = useTexts();
  return (
    <EmptyState icon="events" title={panel.nothing[tab]}>
      <p className="text-sm">{panel.why[tab]}</p>
    </EmptyState>
  );
}
