import { expect, test } from "vitest";
import { attach, giveBack, take } from "./draft";

const a = { id: "a", name: "a.txt" };
const b = { id: "b", name: "b.txt" };

test("what a stop gives back stands in the box in its order, in front of what was being written", () => {
  attach("busy", b);
  giveBack("busy", [
    { text: "first", files: [a] },
    { text: "", files: [b] },
    { text: "second", files: [] },
  ]);
  expect(take("busy", "first\nsecond")).toEqual({ text: "first\nsecond", files: [a, b] });
});

test("a stop that gives nothing back leaves the box as it is", () => {
  giveBack("quiet", []);
  expect(take("quiet", "")).toEqual({ text: "", files: [] });
});
