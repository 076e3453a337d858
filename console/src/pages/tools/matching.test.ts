import { expect, test } from "vitest";
import type { Tool } from "../../server/types";
import { matching } from "./matching";

test("a filter matches all its words", () => {
  const tool = (name: string, description: string) =>
    ({ name, description, aliases: [] as string[] }) as unknown as Tool;
  const all = [tool("get_weather", "Tell the weather in a city."), tool("make_table", "Make a table.")];
  expect(matching(all, "city WEATHER").map(({ name }) => name)).toEqual(["get_weather"]);
  expect(matching(all, " ")).toHaveLength(2);
});
