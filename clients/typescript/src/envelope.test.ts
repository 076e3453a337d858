import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { generated } from "../scripts/generate.mjs";

test("the types match the published schema; `npm run generate` updates them", async () => {
  expect(readFileSync(new URL("envelope.gen.ts", import.meta.url), "utf8")).toBe(await generated());
});
