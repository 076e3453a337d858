import type { NamedState, Session } from "@stellwerk/client";
import { type ReactNode, useId } from "react";
import { EventLink } from "../../../parts/EventLink";
import { useTexts } from "../../../texts";
import { type Change, lastChanges } from "../changes";
import { shownStates } from "../named";
import { useUpdates } from "../updates";
import { StateValue } from "./StateValue";

interface Props {
  sid: string;
  session: Session;
  /** Shown if there is no state. */
  nothing: ReactNode;
}

/** The state of agents: plans, to-do lists, files in memory, and the keys of a graph. */
export function States({ sid, session, nothing }: Props) {
  const { panel } = useTexts();
  const { updates } = useUpdates(session.position);
  const states = shownStates(session);
  const changes = lastChanges(updates, session.position);
  if (states.length === 0 && changes.length === 0) return nothing;
  return (
    <div className="divide-y divide-line">
      {states.map(([name, state]) => (
        <Shown key={name} sid={sid} name={name} state={state} />
      ))}
      {changes.length > 0 && <p className="p-4 text-xs text-muted">{panel.keysWhy}</p>}
      {changes.map((change) => (
        <Written key={change.key} sid={sid} change={change} />
      ))}
    </div>
  );
}

/** A key of a graph's state, as a node last wrote it. */
function Written({ sid, change: { key, value, node, position } }: { sid: string; change: Change }) {
  const { panel } = useTexts();
  const id = useId();
  return (
    <section className="p-4" aria-labelledby={id}>
      <header className="mb-2 flex items-center justify-between gap-2">
        <div className="min-w-0">
          <h3 id={id} className="truncate text-sm font-semibold">
            {key}
          </h3>
          <p className="text-xs text-muted">{panel.writtenBy(node)}</p>
        </div>
        <EventLink sid={sid} position={position} of={key} />
      </header>
      <StateValue value={value} />
    </section>
  );
}

/** A named state. */
export function Shown({ sid, name, state }: { sid: string; name: string; state: NamedState }) {
  const { panel } = useTexts();
  const { owner, version, position, value } = state;
  return (
    <section className="p-4">
      <header className="mb-2 flex items-center justify-between gap-2">
        <div className="min-w-0">
          <h3 className="truncate text-sm font-semibold">{name}</h3>
          <p className="text-xs text-muted">
            {[owner && panel.owner(owner), panel.stateVersion(version)].filter(Boolean).join(" · ")}
          </p>
        </div>
        <EventLink sid={sid} position={position} of={name} />
      </header>
      <StateValue value={value} />
    </section>
  );
}
