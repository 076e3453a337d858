import { expect, test } from "vitest";
import { initialOf, typedValue } from "../../../parts/form/formValues";
import type { Agent, CheckpointInfo, GraphValues } from "../../../server/types";
import { changeableKeys, changeField } from "./changeFields";
import { checkpointAt, entriesOfState } from "./checkpoints";

const checkpoints = [9, null, 5, 2].map((position, place) => ({ checkpoint_id: `c${place}`, position }));

test("in replay the state is that of the last checkpoint before", () => {
  const at = (position: number) => checkpointAt(checkpoints as CheckpointInfo[], position)?.checkpoint_id;
  expect([20, 9, 8, 4, 1].map(at)).toEqual(["c0", "c0", "c2", "c3", undefined]);
});

test("a state without keys has one value", () => {
  expect(entriesOfState({ total: 3, items: [] })).toEqual([
    ["total", 3],
    ["items", []],
  ]);
  expect(entriesOfState([1, 2])).toEqual([["", [1, 2]]]);
  expect(entriesOfState(null)).toEqual([]);
});

const GRAPH = {
  state_schema: {
    type: "object",
    properties: { total: { type: "integer" }, quoted: { type: "array", items: { type: "string" } }, note: {} },
  },
  reducers: ["quoted"],
} as unknown as Agent;

const state = (values: unknown, more: object = {}) => ({ values, ...more }) as GraphValues;

test("a key begins with its value, unless the graph adds to it", () => {
  const now = state({ total: 320, quoted: ["lamp"], extra: true });
  expect(changeableKeys(GRAPH, now)).toEqual(["total", "quoted", "note", "extra"]);
  const form = changeField(GRAPH, now, ["total", "quoted", "extra"]);
  expect(initialOf(form)).toEqual({ total: "320", quoted: [], extra: "true" });
  expect(typedValue(form, initialOf(form)).value).toEqual({ total: 320, quoted: [], extra: true });
});

test("a value that the schema does not allow is changed as JSON, one that is not shown whole not at all", () => {
  const odd = changeField(GRAPH, state({ total: "many" }), ["total"]);
  expect(initialOf(odd)).toEqual({ total: '"many"' });
  const cut = changeField(GRAPH, state({ total: 320 }, { sanitized: ["$.total: too large"] }), ["total"]);
  expect(initialOf(cut)).toEqual({ total: "" });
});
