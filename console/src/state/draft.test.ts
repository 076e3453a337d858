import { expect, test } from "vitest";
import { attach, giveBack, take } from "./draft";

const a = { id: "a", name: "a.txt" };
const b = { id: "b", name: "b.txt" };

test("messages withdrawn by a stop return to the input box in order, before the current draft", () => {
  attach("busy", b);
  giveBack("busy", [
    { text: "first", files: [a] },
    { text: "", files: [b] },
    { text: "second", files: [] },
  ]);
  expect(take("busy", "first\nsecond")).toEqual({ text: "first\nsecond", files: [a, b] });
});

test("a stop without withdrawn messages leaves the input box unchanged", () => {
  giveBack("quiet", []);
  expect(take("quiet", "")).toEqual({ text: "", files: [] });
});
