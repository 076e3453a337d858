import type { Session } from "@stellwerk/client";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useId, useMemo, useState } from "react";
import { Button } from "../../../parts/Button";
import { EventLink } from "../../../parts/EventLink";
import { Loaded } from "../../../parts/Loaded";
import { graphHistory, graphState } from "../../../server/queries";
import type { Agent, CheckpointInfo, GraphValues } from "../../../server/types";
import { useScope } from "../../../state/scopes";
import { useTexts } from "../../../texts";
import { type Change, lastChanges } from "../changes";
import { shownStates } from "../named";
import { useUpdates } from "../updates";
import { ChangeState } from "./ChangeState";
import { CheckpointChoice } from "./CheckpointChoice";
import { checkpointAt, entriesOfState } from "./checkpoints";
import { Shown } from "./States";
import { StateValue } from "./StateValue";

interface Props {
  sid: string;
  session: Session;
  graph: Agent;
  /** In replay: the state of that moment, which cannot be changed. */
  isPast: boolean;
  /** Shown if there is no state. */
  nothing: ReactNode;
}

/** The state of a session's graph: all keys with their values, now or at an earlier checkpoint. */
export function GraphState({ sid, session, graph, isPast, nothing }: Props) {
  const { updates } = useUpdates(session.position);
  const [chosen, setChosen] = useState<string | null>(null);
  const at = [updates.at(-1)?.position ?? 0, session.status, session.awaitingUserInput, session.runs.length].join(" ");
  const history = useInfiniteQuery(graphHistory(sid, isPast ? "" : at));
  const checkpoints = useMemo(() => history.data?.pages.flatMap((page) => page.checkpoints) ?? [], [history.data]);
  const then = isPast ? checkpointAt(checkpoints, session.position) : undefined;
  const { hasNextPage, isFetching, fetchNextPage } = history;
  useEffect(() => {
    if (isPast && !then && hasNextPage && !isFetching) void fetchNextPage();
  }, [isPast, then, hasNextPage, isFetching, fetchNextPage]);
  const checkpoint = isPast ? (then?.checkpoint_id ?? null) : chosen;
  const query = useQuery({ ...graphState(sid, checkpoint, isPast ? "" : at), enabled: !isPast || then !== undefined });
  const isLatest = checkpoint === null;
  const changes = lastChanges(updates, isPast ? session.position : Number.POSITIVE_INFINITY);
  if (isPast && !then && !hasNextPage && !isFetching) return nothing;
  return (
    <Loaded query={query}>
      {(state) => {
        const entries = entriesOfState(state.values);
        const named = shownStates(session).filter(([name]) => !entries.some(([key]) => key === name));
        if (state.checkpoint_id === null && !entries.length && !named.length) return nothing;
        return (
          <div className="divide-y divide-line">
            <Head {...{ sid, session, graph, isPast, state, chosen, setChosen, checkpoints, history }} />
            {entries.map(([key, value]) => (
              <Key key={key} sid={sid} name={key} value={value} change={isLatest ? byKey(changes, key) : undefined} />
            ))}
            {named.map(([name, one]) => (
              <Shown key={name} sid={sid} name={name} state={one} />
            ))}
          </div>
        );
      }}
    </Loaded>
  );
}

const byKey = (changes: readonly Change[], key: string) => changes.find((change) => change.key === key);

interface HeadProps extends Omit<Props, "nothing"> {
  state: GraphValues;
  chosen: string | null;
  setChosen: (checkpoint: string | null) => void;
  checkpoints: readonly CheckpointInfo[];
  history: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown };
}

/** Which state is shown, what comes next in the graph, and the way to change it. */
function Head({ sid, session, graph, isPast, state, chosen, setChosen, checkpoints, history }: HeadProps) {
  const { panel } = useTexts();
  const mayChange = useScope("run") && !isPast;
  const [isChanging, setChanging] = useState(false);
  const isBusy = session.status === "running" && !session.awaitingUserInput;
  return (
    <div>
      <div className="space-y-3 p-4">
        <div className="flex flex-wrap items-end gap-2">
          <div className="min-w-40 flex-1">
            <CheckpointChoice
              checkpoints={checkpoints}
              value={isPast ? state.checkpoint_id : chosen}
              isFixed={isPast}
              onChange={setChosen}
            />
          </div>
          {mayChange && (
            <Button disabled={isBusy} title={isBusy ? panel.change.busy : undefined} onClick={() => setChanging(true)}>
              {panel.change.open}
            </Button>
          )}
        </div>
        {history.hasNextPage && (
          <Button
            look="quiet"
            className="h-8! px-2!"
            disabled={history.isFetchingNextPage}
            onClick={() => history.fetchNextPage()}
          >
            {panel.olderCheckpoints}
          </Button>
        )}
        <p className="text-xs text-muted">
          {state.next.length > 0 ? panel.nextNodes(state.next.join(", ")) : panel.noNextNodes}
          {chosen !== null && !isPast && ` · ${panel.earlierState}`}
        </p>
      </div>
      <ChangeState
        sid={sid}
        graph={graph}
        state={state}
        checkpoint={chosen}
        isOpen={isChanging}
        onClose={() => setChanging(false)}
        onDone={() => {
          setChanging(false);
          setChosen(null);
        }}
      />
    </div>
  );
}

interface KeyProps {
  sid: string;
  name: string;
  value: unknown;
  /** Its last write in the log. */
  change: Change | undefined;
}

/** A key of the state with its value. */
function Key({ sid, name, value, change }: KeyProps) {
  const { panel } = useTexts();
  const id = useId();
  return (
    <section className="p-4" aria-labelledby={id}>
      <header className="mb-2 flex min-h-6 items-center justify-between gap-2">
        <div className="min-w-0">
          <h3 id={id} className="truncate font-mono text-sm font-semibold">
            {name || panel.wholeState}
          </h3>
          {change && (
            <p className="text-xs text-muted">
              {change.isByUser ? panel.changedByUser(change.node) : panel.writtenBy(change.node)}
            </p>
          )}
        </div>
        {change && <EventLink sid={sid} position={change.position} of={name || panel.wholeState} />}
      </header>
      <StateValue value={value} />
    </section>
  );
}
