import { EMPTY, type Envelope, reduce, type Session } from "@stellwerk/client";
import { expect, test } from "vitest";
import { neighbour, type Row, rowsOf } from "./tree";

const GOLDEN = import.meta.glob<string>("../../../../../tests/golden/runs/*.jsonl", {
  query: "?raw",
  import: "default",
});

/** A golden run, up to a position. */
async function session(name: string, until = Number.POSITIVE_INFINITY): Promise<Session> {
  const text = (await GOLDEN[`../../../../../tests/golden/runs/${name}.jsonl`]?.()) ?? "";
  const envelopes = text
    .split("\n")
    .filter(Boolean)
    .map(
      (line, place) => ({ position: place + 1, origin: "replay", session_id: "s", ...JSON.parse(line) }) as Envelope,
    );
  return envelopes.slice(0, until).reduce(reduce, EMPTY);
}

const drawn = (rows: readonly Row[]) =>
  rows.map((row) => {
    const what = {
      run: "run",
      call: row.type === "call" ? row.call.name : "",
      details: "details",
      problem: "problem",
      change: "change",
    };
    const part = row.type === "details" ? ` ${row.part}` : "";
    return `${"  ".repeat(row.depth)}${what[row.type]}${part}`;
  });

test("a call is placed below its parent, between the parent's input and result", async () => {
  expect(drawn(rowsOf(await session("nested-agents"), {}))).toMatchInlineSnapshot(`
    [
      "run",
      "scripted",
      "researcher",
      "  details given",
      "  scripted",
      "  reader",
      "    details given",
      "    scripted",
      "    note",
      "    scripted",
      "    details gave",
      "  scripted",
      "  details gave",
      "scripted",
    ]
  `);
});

test("parallel agents differ in colour, and in number if they have the same name", async () => {
  const lanes = rowsOf(await session("parallel-agents"), {}).flatMap((row) =>
    row.type === "call" && row.call.kind === "agent" ? [row.lane] : [],
  );
  expect(lanes).toMatchInlineSnapshot(`
    [
      {
        "colour": 0,
        "name": "noter 1",
        "stripes": "0:0",
      },
      {
        "colour": 1,
        "name": "noter 2",
        "stripes": "0:1",
      },
    ]
  `);
});

test("a closed call shows no content, and an open one its details", async () => {
  const whole = await session("nested-agents");
  const run = whole.runs[0];
  expect(drawn(rowsOf(whole, { [run?.id ?? ""]: false }))).toEqual(["run"]);
  const model = run?.calls[0] ?? "";
  expect(drawn(rowsOf(whole, { [model]: true })).slice(0, 3)).toEqual(["run", expect.any(String), "  details both"]);
});

test("a call that waits for the user is marked, and so are all its ancestors", async () => {
  const whole = await session("question-answered");
  const asked = [...Array(whole.position).keys()];
  for (const until of asked) {
    const then = await session("question-answered", until);
    const waiting = rowsOf(then, {}).flatMap((row) =>
      row.type === "call" && row.state === "waiting" ? [row.call.kind] : [],
    );
    expect(waiting).toEqual(then.questions.some((one) => one.state === "open") ? ["agent", "tool"] : []);
  }
});

test("a rejected call has not failed", async () => {
  const states = async (name: string) =>
    rowsOf(await session(name), {}).flatMap((row) => (row.type === "call" ? [`${row.call.kind} ${row.state}`] : []));
  expect(await states("approval-rejected")).toEqual(["model ok", "tool rejected", "model ok"]);
  expect(await states("failing-tool")).toContain("tool error");
});

test("an answered run stays open next to the one that continues it", async () => {
  const rows = rowsOf(await session("question-answered"), {});
  expect(rows.flatMap((row) => (row.type === "run" ? [row.open] : []))).toEqual([true, true]);
});

test("problems are placed at the end of their run", async () => {
  expect(drawn(rowsOf(await session("failing-run"), {}))).toEqual(["run", "scripted", "problem", "problem"]);
});

test("keys move to the next call, the previous one and the parent", async () => {
  const rows = rowsOf(await session("nested-agents"), {});
  const keys = rows.filter((row) => row.type === "run" || row.type === "call").map((row) => row.key);
  expect(keys.map((key) => neighbour(rows, key, "down"))).toEqual([...keys.slice(1), null]);
  expect(keys.map((key) => neighbour(rows, key, "up"))).toEqual([null, ...keys.slice(0, -1)]);
  const inner = rows.findLast((row) => row.type === "call" && row.depth === 2);
  expect(neighbour(rows, inner?.key ?? "", "out")).toBe(inner?.type === "call" ? inner.parentKey : "");
  expect(neighbour(rows, "missing", "up")).toBeNull();
});
