import { expect, test } from "vitest";
import type { Tool } from "../../server/types";
import { argumentsOf, kindOf, matching } from "./schema";

test("arguments are told with their kind, and whether they are required", () => {
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

test("a kind is told in few characters, whatever the schema looks like", () => {
  expect(kindOf({ anyOf: [{ type: "string" }, { type: "null" }] })).toBe("string | null");
  expect(kindOf({ type: "array", items: { $ref: "#/$defs/Task" } })).toBe("Task[]");
  expect(kindOf({ enum: ["a", 1] })).toBe('"a" | 1');
  expect(kindOf({})).toBe("any");
});

test("a filter looks for all its words", () => {
  const tool = (name: string, description: string) =>
    ({ name, description, aliases: [] as string[] }) as unknown as Tool;
  const all = [tool("get_weather", "Tell the weather in a city."), tool("make_table", "Make a table.")];
  expect(matching(all, "city WEATHER").map(({ name }) => name)).toEqual(["get_weather"]);
  expect(matching(all, " ")).toHaveLength(2);
});
