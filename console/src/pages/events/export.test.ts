// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { curlOf } from "./export";

test("a command refers to the key and does not contain it", () => {
  expect(curlOf("s1", "user", true)).toContain('"Authorization: Bearer $STELLWERK_KEY"');
  expect(curlOf("s1", "debug", false)).toMatch(/^curl -N -H 'Accept: application\/x-ndjson' '\S+profile=debug'$/);
});

test("a name from a URL cannot escape its quotes", () => {
  const command = curlOf("x';touch $(pwd) '", "user", false);
  expect(command.match(/'/g)).toHaveLength(4);
  expect(command).toContain("x%27%3Btouch%20%24(pwd)%20%27");
});
