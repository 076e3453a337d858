import { expect, test } from "vitest";
import { blocksOf } from "./blocks";

test("paragraphs are separate blocks", () => {
  expect(blocksOf("one\ntwo\n\nthree\n\n\nfour")).toEqual(["one\ntwo\n", "three\n\n", "four"]);
  expect(blocksOf("")).toEqual([]);
});

test("code and lists are not split", () => {
  const code = "```py\na\n\nb\n```";
  expect(blocksOf(`${code}\n\nend`)).toEqual([`${code}\n`, "end"]);
  expect(blocksOf("````\n```\n\nx\n````")).toHaveLength(1);
  expect(blocksOf("1. a\n\n2. b\n\n   more of b\n\nend")).toEqual(["1. a\n\n2. b\n\n   more of b\n", "end"]);
  expect(blocksOf("```\nnot closed\n\nyet")).toHaveLength(1);
});

test("earlier blocks stay the same while a text grows", () => {
  const text = "# Title\n\nSome *words*.\n\n- a\n- b\n\n```\nx\n\ny\n```\n\nThe end.";
  for (let length = 1; length < text.length; length++) {
    const [before, after] = [blocksOf(text.slice(0, length)), blocksOf(text.slice(0, length + 1))];
    expect(after.slice(0, before.length - 1)).toEqual(before.slice(0, -1));
    expect(before.join("").replace(/\s/g, "")).toBe(text.slice(0, length).replace(/\s/g, ""));
  }
});
