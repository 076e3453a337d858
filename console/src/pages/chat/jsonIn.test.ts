import { expect, test } from "vitest";
import { jsonIn } from "./jsonIn";

test("a text that is a JSON object or list is shown as such; any other stays a text", () => {
  expect(jsonIn(' {"info": {"mass": 7}}\n')).toEqual({ info: { mass: 7 } });
  expect(jsonIn('["a", "b"]')).toEqual(["a", "b"]);
  for (const text of ["", "7", '"a"', "{}", "[]", "{a}", "[see](https://a.example)", '{"a": 1} is what I found'])
    expect(jsonIn(text)).toBeNull();
});
