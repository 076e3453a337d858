import { expect, test } from "vitest";
import { startOf } from "./lines";

test("a line is found by its number", () => {
  expect([1, 2, 3, 9].map((line) => startOf("ab\ncd\n\nx", line))).toEqual([0, 3, 6, 8]);
});
