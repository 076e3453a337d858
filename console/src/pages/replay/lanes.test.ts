import { readFileSync } from "node:fs";
import type { Envelope } from "@stellwerk/client";
import { expect, test } from "vitest";
import { axisOf } from "./lanes";
import { Tape } from "./tape";

function tapeOf(name: string): Tape {
  const file = new URL(`../../../../tests/golden/runs/${name}.jsonl`, import.meta.url);
  const lines = readFileSync(file, "utf8").split("\n").filter(Boolean);
  const tape = new Tape();
  // Golden runs have no real clock: each envelope comes a second after the previous one.
  tape.add(lines.map((line, index) => ({ ...JSON.parse(line), position: index + 1, ts: index }) as Envelope));
  return tape;
}

test("concurrent calls are placed in separate rows", () => {
  const tape = tapeOf("parallel-agents");
  const axis = axisOf(tape, 1);
  const agents = axis?.lanes.find((lane) => lane.kind === "agents");
  expect(agents?.rows).toBeGreaterThan(2); // the run itself, and two agents in it
  for (const lane of axis?.lanes ?? [])
    for (const bar of lane.bars) {
      expect(bar.from).toBeLessThanOrEqual(bar.to);
      const beside = lane.bars.filter((other) => other !== bar && other.row === bar.row);
      expect(beside.some((other) => other.from < bar.to && bar.from < other.to)).toBe(false);
    }
});

test("every call of the round is there and links to its start", () => {
  const tape = tapeOf("nested-agents");
  const bars = axisOf(tape, 1)?.lanes.flatMap((lane) => lane.bars) ?? [];
  expect(bars.map((bar) => bar.id).sort()).toEqual(
    [...[...tape.end.calls.values()].map((call) => call.id), tape.end.runId].sort(),
  );
  for (const bar of bars) expect(tape.envelope(tape.index(bar.position))?.call_id).toBe(bar.id);
});

test("a round that does not exist has no axis", () => {
  expect(axisOf(tapeOf("one-tool"), 7)).toBeNull();
});

test("a thousand calls are reduced to few bars, and the rest is counted", () => {
  const run = { type: "run_start", call_id: "r", parent_id: null, payload: { round: 1, trigger: "message" } };
  const calls = Array.from({ length: 3000 }, (_, index) => [
    { type: "tool_start", call_id: `c${index}`, parent_id: "r", payload: { tool_name: "t", tool_call_id: `${index}` } },
    { type: "tool_end", call_id: `c${index}`, parent_id: "r", payload: { status: "ok" } },
  ]).flat();
  const tape = new Tape();
  tape.add([run, ...calls].map((one, index) => ({ ...one, position: index + 1, ts: index }) as unknown as Envelope));
  const tools = axisOf(tape, 1)?.lanes.find((lane) => lane.kind === "tools");
  expect(tools?.bars.length).toBeLessThan(900);
  expect((tools?.bars.length ?? 0) + (tools?.left ?? 0)).toBe(3000);
});
