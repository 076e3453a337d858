import { expect, test } from "vitest";
import { contentBlock, insertedAt } from "./contentBlock";

test.each([
  ["image/png", "image", "image/png"],
  ["audio/wav", "audio", "audio/wav"],
  ["application/pdf", "file", "application/pdf"],
  ["", "file", "application/octet-stream"],
])("a file of type %o is a content block of type %s", async (type, kind, mime) => {
  const block = await contentBlock(new File([new Uint8Array([0, 255, 65])], "a", { type }));
  expect(JSON.parse(block ?? "")).toEqual({ type: kind, base64: "AP9B", mime_type: mime });
});

test("a file that is too large for a message is not taken", async () => {
  expect(await contentBlock(new File([new Uint8Array(90_001)], "a"))).toBeNull();
  const block = await contentBlock(new File([new Uint8Array(90_000)], "a", { type: "image/png" }));
  expect(block?.length).toBeLessThan(128 * 1024);
});

test.each([
  ["", 0, "{}"],
  ["[]", 1, "[{}]"],
  ['["a"]', 4, '["a", {}]'],
  ['["a"]', 1, '[{}, "a"]'],
  ["[{}, {}]", 3, "[{}, {}, {}]"],
  ['[{"role": "user", "content": []}]', 30, '[{"role": "user", "content": [{}]}]'],
])("in %o a block at %d makes %s", (text, place, made) => {
  expect(insertedAt(text, place, place, "{}")).toBe(made);
});

test("a block takes the place of what is selected", () => {
  expect(insertedAt("[1, 2]", 4, 5, "{}")).toBe("[1, {}]");
});
