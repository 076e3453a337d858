import { expect, test } from "vitest";
import { typed } from "./shortcuts";

const KNOWN = ["?", "g s", "g c", "n"];

test("some shortcuts have one key", () => {
  expect(typed("", "?", KNOWN)).toEqual({ hit: "?", rest: "" });
});

test("others wait for a second key", () => {
  expect(typed("", "g", KNOWN)).toEqual({ hit: null, rest: "g" });
  expect(typed("g", "s", KNOWN)).toEqual({ hit: "g s", rest: "" });
});

test("a second key that does not match may start another shortcut", () => {
  expect(typed("g", "n", KNOWN)).toEqual({ hit: "n", rest: "" });
  expect(typed("g", "x", KNOWN)).toEqual({ hit: null, rest: "" });
});
