// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { address, problemOf } from "./ask";

test("a problem keeps its code, its words and its places", () => {
  const mistake = { file: "body", line: 3, column: 5, field: "agents.0.id", message: "this field is required" };
  const body = JSON.stringify({ code: "invalid_system", detail: "1 problem", problems: [mistake] });
  const problem = problemOf(422, body);
  expect([problem.status, problem.code, problem.message]).toEqual([422, "invalid_system", "1 problem"]);
  expect(problem.mistakes).toEqual([mistake]);
});

test("the page of a proxy is not shown as if it were words", () => {
  expect(problemOf(502, "<html>Bad gateway</html>").message).toBe("");
  expect(problemOf(502, "upstream is away").message).toBe("upstream is away");
});

test("an address is below the page, whatever its path and hash", () => {
  expect(new URL(address("/sessions?limit=5")).pathname).toBe("/sessions");
});
