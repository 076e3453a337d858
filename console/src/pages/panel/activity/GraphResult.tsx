import { EMPTY, type Session, type ToolCall } from "@stellwerk/client";
import { createContext, useContext, useMemo } from "react";
import { useTexts } from "../../../texts";
import { type Change, changesInside, returnedBy } from "../changes";
import { useUpdates } from "../updates";
import { Section } from "./Section";
import { Values } from "./Values";

/** The session whose calls are shown. */
export const ShownSession = createContext<Session>(EMPTY);

/** The result of a graph in a node: what the node returned; if the log does not identify it, what was written inside. */
export function GraphResult({ call }: { call: ToolCall }) {
  const { panel } = useTexts();
  const session = useContext(ShownSession);
  const { updates, position } = useUpdates(session.position);
  const returned = useMemo(() => returnedBy(updates, session).get(call.id), [updates, session, call.id]);
  const inside = changesInside(updates, call, session.position);
  if (returned && returned.changes.length > 0)
    return (
      <Section title={panel.returned(returned.node)}>
        <Values of={valuesOf(returned.changes)} />
      </Section>
    );
  if (inside.length > 0)
    return (
      <Section title={panel.writtenInside}>
        <Values of={valuesOf(inside)} />
      </Section>
    );
  const isRead = call.endPosition !== undefined && position >= call.endPosition;
  return isRead && call.state === "ok" && !call.outcome?.messages?.length ? (
    <p className="text-xs text-muted">{panel.noResult}</p>
  ) : null;
}

const valuesOf = (changes: readonly Change[]): object =>
  Object.fromEntries(changes.map(({ key, value }) => [key, value]));
