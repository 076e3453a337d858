import { EMPTY, type Session } from "@stellwerk/client";
import { expect, test } from "vitest";
import { filesOf, shownStates, todosOf } from "./named";

test("a to-do list needs only valid lines", () => {
  const list = [{ content: "look around", status: "in_progress" }];
  expect(todosOf(list)).toBe(list);
  for (const other of [[], {}, null, "x", [...list, 3], [{ content: "a", status: "lost" }]])
    expect(todosOf(other)).toBeNull();
});

test("files in memory are recognised in both stored forms", () => {
  const files = { "/a.md": { content: "A" }, "/b.md": { content: ["1", "2"] } };
  expect(filesOf(files)).toEqual([
    ["/a.md", "A"],
    ["/b.md", "1\n2"],
  ]);
  for (const other of [{}, [], null, { a: 1 }, { ...files, c: { content: 1 } }]) expect(filesOf(other)).toBeNull();
});

test("states are sorted newest first, without the checklist", () => {
  const state = (position: number) => ({ version: 1, value: {}, position });
  const session: Session = { ...EMPTY, states: { plan: state(3), checklist: state(9), todos: state(5) } };
  expect(shownStates(session).map(([name]) => name)).toEqual(["todos", "plan"]);
});
