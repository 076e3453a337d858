import { expect, test } from "vitest";
import { nextOrder, sorted } from "./sort";

const by = (values: unknown[], falling = false) =>
  sorted(
    values.map((value) => [value]),
    { column: 0, falling },
    "de",
  ).flat();

test("numbers sort by value, texts by the rules of the language, digits in texts by value", () => {
  expect(by([10, 9, -1])).toEqual([-1, 9, 10]);
  expect(by(["Zwickau", "äpfel", "Bonn"])).toEqual(["äpfel", "Bonn", "Zwickau"]);
  expect(by(["file 10", "file 9"], true)).toEqual(["file 10", "file 9"]);
});

test("empty values come last in both directions", () => {
  expect(by([null, 2, "", 1])).toEqual([1, 2, null, ""]);
  expect(by([null, 2, undefined, 1], true)).toEqual([2, 1, null, undefined]);
});

test("equal rows keep their order, and the input is not changed", () => {
  const rows = [
    ["b", 1],
    ["a", 1],
    ["c", 0],
  ] as const;
  expect(sorted(rows, { column: 1, falling: false }, "en").map(([name]) => name)).toEqual(["c", "b", "a"]);
  expect(rows[0][0]).toBe("b");
});

test("a click sorts ascending, then descending, then not at all", () => {
  const up = nextOrder(null, 1);
  const down = nextOrder(up, 1);
  expect([up, down, nextOrder(down, 1)]).toEqual([{ column: 1, falling: false }, { column: 1, falling: true }, null]);
  expect(nextOrder(down, 0)).toEqual({ column: 0, falling: false });
});
