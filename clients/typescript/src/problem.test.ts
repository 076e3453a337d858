import { expect, test } from "vitest";
import { Problem, problemOf } from "./problem.js";

test("a problem has its code, its text and its locations", async () => {
  const mistake = { file: "body", line: 3, column: 5, field: "agents.0.id", message: "this field is required" };
  const body = JSON.stringify({ code: "invalid_system", detail: "1 problem", problems: [mistake] });
  const problem = await problemOf(new Response(body, { status: 422 }));
  expect([problem.status, problem.code, problem.message]).toEqual([422, "invalid_system", "1 problem"]);
  expect([problem.problems, problem.transient]).toEqual([[mistake], false]);
});

test("a proxy's page is not shown as text; it is transient, and so is no response", async () => {
  const problem = await problemOf(new Response("<html>Bad gateway</html>", { status: 502 }));
  expect([problem.message, problem.transient]).toEqual(["The server answered with 502", true]);
  expect(new Problem(0, { code: "unreachable" }).transient).toBe(true);
});

test("fields that should be strings and are not are dropped", async () => {
  const problem = await problemOf(new Response(JSON.stringify({ code: 7, detail: [{ msg: "no" }] }), { status: 422 }));
  expect([problem.code, problem.message]).toEqual(["unknown", "The server answered with 422"]);
});
