import { expect, test } from "vitest";
import { hasHidden, piecesOf, spelled, spelledJson } from "./invisible";

test.each([
  ["turned round", "invoice_\u202Egnp.exe", "invoice_⟨U+202E⟩gnp.exe"],
  ["isolated", "\u2066a\u2069", "⟨U+2066⟩a⟨U+2069⟩"],
  ["without width", "pay\u200B\u2060pal\uFEFF", "pay⟨U+200B⟩⟨U+2060⟩pal⟨U+FEFF⟩"],
  ["joined, but no emoji", "a\u200Db \u0645\u200C\u06CC", "a⟨U+200D⟩b \u0645⟨U+200C⟩\u06CC"],
  ["control characters", "a\u0000\u001B[31m\r\u0085", "a⟨U+0000⟩⟨U+001B⟩[31m⟨U+000D⟩⟨U+0085⟩"],
  ["tags", "x\u{E0041}\u{E0042}", "x⟨U+E0041⟩⟨U+E0042⟩"],
  ["variants and fillers", "x\uFE01\u{E0100}\u00AD\u3164", "x⟨U+FE01⟩⟨U+E0100⟩⟨U+00AD⟩⟨U+3164⟩"],
  ["half of a sign", "\uD800", "⟨U+D800⟩"],
])("invisible characters are named: %s", (_, text, shown) => {
  expect(hasHidden(text)).toBe(true);
  expect(spelled(text)).toBe(shown);
  expect(JSON.parse(spelledJson(JSON.stringify([text])))).toEqual([text]);
  expect(hasHidden(spelledJson(JSON.stringify([text])))).toBe(false);
});

test.each(["two\n\tlines", "Grüße, שלום, مرحبا", "👩‍👩‍👧 👩🏽‍🚀 🏳️‍🌈 ❤️ 👍🏿", "U+202E"])(
  "what one sees stays: %s",
  (text) => {
    expect(hasHidden(text)).toBe(false);
    expect(piecesOf(text)).toEqual([{ text, isHidden: false }]);
  },
);

test("a written code point differs from a named one", () => {
  expect(piecesOf("U+202E\u202E\u202Ax")).toEqual([
    { text: "U+202E", isHidden: false },
    { text: "U+202E U+202A", isHidden: true },
    { text: "x", isHidden: false },
  ]);
});
