import { expect, test } from "vitest";
import type { Agent, System } from "../../server/types";
import { cut, layout, tree } from "./layout";

const agent = (id: string, tools: string[], agents: string[] = []): Agent => ({
  ...{ id, role: "sub-agent", kind: "react", description: "" },
  ...{ model: { provider: "scripted", model: "scripted" }, tools, agents: agents.map((other) => ({ id: other })) },
});

const system = (agents: Agent[]): System => ({
  ...{ id: "s", version: 1, versions: [1], created_at: 0, description: "", orchestrator: agents[0]?.id ?? "" },
  ...{ agents, tools: [], models: [], warnings: [], problems: [], default_model: {}, storage: {}, quotas: {} },
  ...{ coalescing_window: null, store_prompts: false },
});

test("a callee is placed below and to the right of its caller, and tools come last", () => {
  const agents = [agent("d", []), agent("a", ["t"], ["b", "c"]), agent("b", ["t", "u"], ["d"]), agent("c", [])];
  const { boxes, lines } = layout({ ...system(agents), orchestrator: "a" });
  expect(boxes.map(({ id }) => id)).toEqual(["agent a", "agent b", "agent d", "agent c", "tool t", "tool u"]);
  const [a, b, d, c, t] = boxes.map(({ x }) => x);
  expect([a, b, d, c, t].toSorted((one, other) => Number(one) - Number(other))).toEqual([a, b, c, d, t]);
  expect(b).toBe(c);
  expect(lines.map(({ from, to }) => `${from} > ${to}`)).toContain("agent b > tool u");
});

test("boxes do not overlap and lie inside the diagram", () => {
  const { boxes, width, height } = layout(system([agent("a", ["t", "u", "v"], ["b"]), agent("b", ["w"])]));
  for (const one of boxes) {
    expect(one.x >= 0 && one.y >= 0 && one.x + one.width <= width && one.y + one.height <= height).toBe(true);
    for (const other of boxes)
      if (one !== other && one.kind === other.kind)
        expect(Math.abs(one.y - other.y)).toBeGreaterThanOrEqual(Math.min(one.height, other.height));
  }
});

test("on a narrow page each agent has its tools below it, and a shared tool appears twice", () => {
  const { boxes, lines, width } = tree(system([agent("a", ["t"], ["b"]), agent("b", ["t", "u"], ["a"])]));
  expect(boxes.map(({ id }) => id)).toEqual(["agent a", "a tool t", "agent b", "b tool t", "b tool u"]);
  for (const [one, next] of boxes.slice(1).map((box, index) => [boxes[index], box] as const))
    expect(next.y).toBeGreaterThanOrEqual((one?.y ?? 0) + (one?.height ?? 0));
  expect(Math.max(...boxes.map((box) => box.x + box.width))).toBeLessThan(width);
  expect(lines.map(({ from, to }) => `${from} > ${to}`)).toContain("agent a > agent b");
});

test("agents that call each other do not cause an endless loop", () => {
  expect(layout(system([agent("a", [], ["b"]), agent("b", [], ["a"])])).boxes).toHaveLength(2);
  expect(layout(system([])).boxes).toEqual([]);
});

test("a long name is truncated", () => {
  expect([cut("short", 10), cut("much too long", 8)]).toEqual(["short", "much to…"]);
});
