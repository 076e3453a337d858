import type { Session, ToolCall, UpdateEnvelope } from "@stellwerk/client";

/** A node's write to one key of its graph's state. */
export interface Change {
  readonly key: string;
  readonly value: unknown;
  readonly node: string;
  readonly position: number;
  /** A client changed the state; no node ran. */
  readonly isByUser?: boolean;
}

/** The return value of a node. */
export interface Returned {
  readonly node: string;
  readonly changes: readonly Change[];
}

/**
 * The last write to each key of the session's own graph, newest first. A write is not the state:
 * a reducer may have combined it with the old value, and the log does not say how.
 */
export function lastChanges(updates: readonly UpdateEnvelope[], until: number): readonly Change[] {
  return lastOf(updates.filter(({ position, payload }) => position <= until && !payload.namespace?.length));
}

/** Changes that clients made to the state, in order. */
export function userChanges(updates: readonly UpdateEnvelope[], until: number): readonly UpdateEnvelope[] {
  return updates.filter(({ position, payload }) => payload.by === "user" && position <= until);
}

/** The last write to each key inside a called graph. */
export function changesInside(updates: readonly UpdateEnvelope[], call: ToolCall, until: number): readonly Change[] {
  return lastOf(updates.filter(({ position, call_id: id }) => position <= until && id === call.id));
}

/**
 * The return value of the node in which a graph ran, by the id of the graph's call. The log has it after the end of the
 * graph, with the node's name only; it is ambiguous if several graphs ended in parallel in nodes of one name.
 */
export function returnedBy(updates: readonly UpdateEnvelope[], session: Session): ReadonlyMap<string, Returned> {
  const runs = new Set(session.runs.map(({ id }) => id));
  const graphs = graphsByNode(session);
  const found = new Map<string, Returned>();
  const settled = new Set<string>();
  for (const update of updates) {
    const { node, namespace } = update.payload;
    const isInside = ({ parentId }: ToolCall) =>
      parentId === null || runs.has(parentId) ? !namespace?.length : parentId === update.call_id;
    const ended = (graphs.get(node) ?? []).filter(
      (call) => !settled.has(call.id) && (call.endPosition ?? update.position) < update.position && isInside(call),
    );
    for (const { id } of ended) settled.add(id);
    const [only, ...others] = ended;
    if (only && others.length === 0 && update.position <= session.position)
      found.set(only.id, { node, changes: changesOf(update) });
  }
  return found;
}

/** The successful ones, by their node. */
function graphsByNode(session: Session): ReadonlyMap<string, readonly ToolCall[]> {
  const found = new Map<string, ToolCall[]>();
  for (const call of session.calls.values()) {
    if (call.kind !== "graph" || call.state !== "ok" || call.node === undefined) continue;
    found.set(call.node, [...(found.get(call.node) ?? []), call]);
  }
  return found;
}

function lastOf(updates: readonly UpdateEnvelope[]): readonly Change[] {
  const last = new Map<string, Change>();
  for (const change of updates.flatMap(changesOf)) last.set(change.key, change);
  return [...last.values()].toSorted((one, other) => other.position - one.position);
}

/** A state without keys has one value, named like the node. Removed updates are skipped. */
function changesOf({ payload: { node, delta, redacted, by }, position }: UpdateEnvelope): readonly Change[] {
  if (redacted) return [];
  const isKeyed = typeof delta === "object" && delta !== null && !Array.isArray(delta);
  const values = isKeyed ? Object.entries(delta) : [[node, delta] as const];
  const author = by === "user" ? { isByUser: true } : {};
  return values.map(([key, value]) => ({ key, value, node, position, ...author }));
}
