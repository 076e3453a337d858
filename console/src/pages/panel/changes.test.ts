import { EMPTY, type Envelope, reduce, type Session, type ToolCall, type UpdateEnvelope } from "@stellwerk/client";
import { expect, test } from "vitest";
import { changesInside, lastChanges, returnedBy } from "./changes";

let position = 0;
const at = (rest: object): Envelope =>
  ({
    position: ++position,
    origin: "live",
    session_id: "s",
    ts: position,
    run_id: "r",
    agent: "desk",
    seq: 1,
    ...rest,
  }) as Envelope;
const run = () =>
  at({
    type: "run_start",
    call_id: "r",
    parent_id: null,
    payload: { round: 1, trigger: "message", system: "desk", system_version: 1 },
  });
const begun = (id: string, parent = "r", node = "pricing") =>
  at({
    type: "tool_start",
    call_id: id,
    parent_id: parent,
    payload: { tool_name: node, tool_call_id: id, node, kind: "graph" },
  });
const ended = (id: string, parent = "r", node = "pricing") =>
  at({
    type: "tool_end",
    call_id: id,
    parent_id: parent,
    payload: { tool_name: node, tool_call_id: id, status: "ok" },
  });
const update = (node: string, delta: unknown, call = "r", namespace: string[] = []) =>
  at({ type: "update", call_id: call, parent_id: null, payload: { node, delta, namespace } });

function folded(...log: Envelope[]): [updates: UpdateEnvelope[], session: Session] {
  const updates = log.filter((envelope): envelope is UpdateEnvelope => envelope.type === "update");
  return [updates, log.reduce(reduce, EMPTY)];
}

test("the last change of each key is shown with its node, and none after the shown position", () => {
  const log = [
    run(),
    update("plan", { steps: 1, notes: ["a"] }),
    update("act", { notes: ["b"] }),
    update("end", { steps: 2 }),
  ];
  const [updates, session] = folded(...log);
  expect(lastChanges(updates, session.position).map(({ key, value, node }) => [key, value, node])).toEqual([
    ["steps", 2, "end"],
    ["notes", ["b"], "act"],
  ]);
  expect(lastChanges(updates, log[2]?.position ?? 0).map(({ key, value }) => [key, value])).toEqual([
    ["notes", ["b"]],
    ["steps", 1],
  ]);
});

test("a state without keys, and an update that was removed, are shown as far as possible", () => {
  const removed = { ...update("gone", undefined), payload: { node: "gone", delta: null, redacted: true } } as Envelope;
  const [updates] = folded(run(), update("count", 7), removed);
  expect(lastChanges(updates, 1_000).map(({ key, value }) => [key, value])).toEqual([["count", 7]]);
});

test("a node's return value belongs to the graph that ended in it", () => {
  const inside = update("add_up", { total: 320, draft: 1 }, "g", ["pricing:1"]);
  const [updates, session] = folded(run(), begun("g"), inside, ended("g"), update("pricing", { total: 320 }));
  expect(returnedBy(updates, session).get("g")).toMatchObject({
    node: "pricing",
    changes: [{ key: "total", value: 320 }],
  });
  const call = session.calls.get("g") as ToolCall;
  expect(changesInside(updates, call, session.position).map(({ key }) => key)).toEqual(["total", "draft"]);
  expect(lastChanges(updates, session.position).map(({ key }) => key)).toEqual(["total"]);
});

test("a nested graph is identified by the enclosing call", () => {
  const [updates, session] = folded(
    ...[run(), begun("outer"), begun("inner", "outer", "sum"), ended("inner", "outer", "sum")],
    ...[update("sum", { total: 1 }, "outer", ["pricing:1"]), ended("outer"), update("pricing", { total: 2 })],
  );
  const found = returnedBy(updates, session);
  expect(found.get("inner")?.changes).toMatchObject([{ value: 1 }]);
  expect(found.get("outer")?.changes).toMatchObject([{ value: 2 }]);
});

test("the return values of graphs that end in parallel are not guessed", () => {
  const [updates, session] = folded(
    ...[run(), begun("one"), begun("two"), ended("one"), ended("two")],
    ...[update("pricing", { total: 1 }), update("pricing", { total: 2 })],
  );
  expect(returnedBy(updates, session).size).toBe(0);
});
