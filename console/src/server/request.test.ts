// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { address } from "./request";

test("a URL is relative to the page, whatever its path and hash", () => {
  expect(new URL(address("/sessions?limit=5")).pathname).toBe("/sessions");
});
