import type { NamedState, Session } from "@stellwerk/client";
import { type ReactNode, useId } from "react";
import { Disclosure } from "../../parts/Disclosure";
import { EventLink } from "../../parts/EventLink";
import { JsonTree } from "../../parts/JsonTree";
import { LongText } from "../../parts/LongText";
import { useTexts } from "../../texts";
import { Values } from "./activity/Values";
import { type Change, lastChanges } from "./changes";
import { filesOf, shownStates, todosOf } from "./named";
import { TaskBadge } from "./TaskBadge";
import { useUpdates } from "./updates";

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
      <Value value={value} />
    </section>
  );
}

function Shown({ sid, name, state }: { sid: string; name: string; state: NamedState }) {
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
      <Value value={value} />
    </section>
  );
}

function Value({ value }: { value: unknown }) {
  const todos = todosOf(value);
  if (todos)
    return (
      <ol className="space-y-2">
        {todos.map(({ content, status }, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: equal lines differ only in their index
          <li key={place} className="flex items-start justify-between gap-3 text-sm">
            <span className="min-w-0 break-words">{content}</span>
            <TaskBadge status={status} />
          </li>
        ))}
      </ol>
    );
  const files = filesOf(value);
  if (files)
    return files.map(([path, text]) => (
      <Disclosure key={path} summary={<span className="truncate font-mono text-[0.8125rem]">{path}</span>}>
        <div className="max-h-96 overflow-y-auto rounded-lg bg-sunken p-3">
          <LongText text={text} />
        </div>
      </Disclosure>
    ));
  if (typeof value === "object" && value !== null) return <Values of={value} depth={2} />;
  return <JsonTree value={value} />;
}
