// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { address } from "./ask";

test("an address is below the page, whatever its path and hash", () => {
  expect(new URL(address("/sessions?limit=5")).pathname).toBe("/sessions");
});
