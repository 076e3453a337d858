// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { curlOf } from "./export";

test("a command names the key and does not tell it", () => {
  expect(curlOf("s1", "user", true)).toContain('"Authorization: Bearer $STELLWERK_KEY"');
  expect(curlOf("s1", "debug", false)).toMatch(/^curl -N -H 'Accept: application\/x-ndjson' '\S+profile=debug'$/);
});

test("a name out of an address cannot leave its quotes", () => {
  const command = curlOf("x';touch $(pwd) '", "user", false);
  expect(command.match(/'/g)).toHaveLength(4);
  expect(command).toContain("x%27%3Btouch%20%24(pwd)%20%27");
});
