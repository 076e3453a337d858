import { expect, test } from "vitest";
import { bytes, duration, fractionMark, number, percent } from "./figures";

test("durations have a sensible precision", () => {
  const texts = [0, 0.0404, 0.9996, 1.44, 59.96, 125, 7260].map((seconds) => duration(seconds, "en"));
  expect(texts).toEqual(["0 ms", "40 ms", "1 s", "1.4 s", "1 min 0 s", "2 min 5 s", "2 h 1 min"]);
  expect(duration(1.44, "de")).toBe("1,4 s");
});

test("sizes and numbers follow the language", () => {
  expect([0, 999, 1500, 81_234, 999_600, 25_000_000].map((size) => bytes(size, "en"))).toEqual([
    "0 B",
    "999 B",
    "1.5 kB",
    "81 kB",
    "1 MB",
    "25 MB",
  ]);
  expect(bytes(3_210_000_000, "de")).toBe("3,2 GB");
  expect(number(12345, "de")).toBe("12.345");
  expect([percent(62.4, "en"), percent(62.4, "de")]).toEqual(["62%", "62\u00a0%"]);
});

test("the decimal separator is known if page and browser agree", () => {
  expect(
    [
      ["en", "en-US"],
      ["de", "de-AT"],
      ["en", "nl-NL"],
      ["en", "de"],
    ].map(fractionMark),
  ).toEqual([".", ",", null, null]);
});
