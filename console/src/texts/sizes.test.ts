import { expect, test } from "vitest";
import { sizeOf, timeOf } from "./sizes";

test("sizes and times are told as the language writes them", () => {
  expect([0, 601, 5432, 27_300_000].map((bytes) => sizeOf(bytes, "en"))).toEqual([
    ...["0 bytes", "601 bytes", "5.4 kB", "27.3 MB"],
  ]);
  expect(sizeOf(5432, "de")).toBe("5,4 kB");
  expect([0.25, 12.4, 130].map((seconds) => timeOf(seconds, "en"))).toEqual(["0.3s", "12s", "2m"]);
});
