import { expect, test } from "vitest";
import { brief, entriesOf } from "./json";

test("only values with content can be expanded", () => {
  expect(entriesOf({ a: 1 })).toEqual([["a", 1]]);
  expect(entriesOf(["x"])).toEqual([["0", "x"]]);
  for (const value of [null, 1, "text", [], {}]) expect(entriesOf(value)).toBeNull();
});

test("a value is shown in one line", () => {
  expect(["a", 1, null, true, [], {}, [1, 2], { a: 1, b: 2, c: 3, d: 4 }].map(brief)).toEqual([
    "a",
    "1",
    "null",
    "true",
    "[]",
    "{}",
    "[2]",
    "{a, b, c, …}",
  ]);
});
