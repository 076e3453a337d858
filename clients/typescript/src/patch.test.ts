import { expect, test } from "vitest";
import { patched } from "./patch.js";

const PLAN = { goal: "x", tasks: [{ id: 1, done: false }, { id: 2 }], "a/b": { "~c": 1 } };

test.each([
  [
    { op: "add", path: "/note", value: "n" },
    { ...PLAN, note: "n" },
  ],
  [
    { op: "add", path: "/tasks/1", value: { id: 3 } },
    { ...PLAN, tasks: [PLAN.tasks[0], { id: 3 }, PLAN.tasks[1]] },
  ],
  [
    { op: "add", path: "/tasks/-", value: { id: 3 } },
    { ...PLAN, tasks: [...PLAN.tasks, { id: 3 }] },
  ],
  [
    { op: "remove", path: "/tasks/0" },
    { ...PLAN, tasks: [{ id: 2 }] },
  ],
  [
    { op: "remove", path: "/a~1b/~0c" },
    { ...PLAN, "a/b": {} },
  ],
  [
    { op: "replace", path: "/goal", value: "y" },
    { ...PLAN, goal: "y" },
  ],
  [
    { op: "replace", path: "/tasks/0/done", value: true },
    { ...PLAN, tasks: [{ id: 1, done: true }, { id: 2 }] },
  ],
  [{ op: "replace", path: "", value: 7 }, 7],
  [
    { op: "add", path: "/note" },
    { ...PLAN, note: null },
  ],
])("%j changes one value and keeps the order of the others", (operation, after) => {
  const before = JSON.stringify(PLAN);
  expect(JSON.stringify(patched(PLAN, [operation]))).toBe(JSON.stringify(after));
  expect(JSON.stringify(PLAN)).toBe(before);
});

test.each([
  { op: "replace", path: "/missing", value: 1 },
  { op: "replace", path: "/tasks/2", value: 1 },
  { op: "remove", path: "/tasks/-" },
  { op: "add", path: "/missing/inner", value: 1 },
  { op: "add", path: "/tasks/4", value: 1 },
  { op: "add", path: "/goal/inner", value: 1 },
  { op: "add", path: "/constructor/prototype/x", value: 1 },
  { op: "move", from: "/goal", path: "/aim" },
  {},
  null,
  "add",
])("%j is invalid and skipped", (operation) => {
  expect(patched(PLAN, [operation, { op: "add", path: "/ok", value: 1 }])).toEqual({ ...PLAN, ok: 1 });
});
