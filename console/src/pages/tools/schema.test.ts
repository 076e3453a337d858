import { expect, test } from "vitest";
import { argumentsOf, kindOf } from "./schema";

test("arguments are listed with their type and whether they are required", () => {
  const schema = {
    properties: { city: { type: "string", description: "which" }, days: { type: "integer" } },
    required: ["city"],
  };
  expect(argumentsOf(schema)).toEqual([
    { name: "city", kind: "string", required: true, description: "which" },
    { name: "days", kind: "integer", required: false, description: "" },
  ]);
  expect(argumentsOf({})).toEqual([]);
});

test("a type is described briefly, whatever the schema looks like", () => {
  expect(kindOf({ anyOf: [{ type: "string" }, { type: "null" }] })).toBe("string | null");
  expect(kindOf({ type: "array", items: { $ref: "#/$defs/Task" } })).toBe("Task[]");
  expect(kindOf({ enum: ["a", 1] })).toBe('"a" | 1');
  expect(kindOf({})).toBe("any");
});
