import { readdirSync, readFileSync } from "node:fs";
import { EMPTY, type Envelope, reduce } from "@stellwerk/client";
import { expect, test } from "vitest";
import { LONGEST_PAUSE, Tape } from "./tape";

const RUNS = new URL("../../../../tests/golden/runs/", import.meta.url);
const NAMES = readdirSync(RUNS);

/** As received by a reader that sees all positions, or every second one. */
function golden(name: string, step = 1): Envelope[] {
  const lines = readFileSync(new URL(name, RUNS), "utf8").split("\n").filter(Boolean);
  return lines.map((line, index) => ({ position: (index + 1) * step, origin: "replay", ...JSON.parse(line) }));
}

/** A small seeded generator, so that failures are reproducible. */
function* random(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

function tapeOf(envelopes: readonly Envelope[], page = 7): Tape {
  const tape = new Tape();
  for (let start = 0; start < envelopes.length; start += page) tape.add(envelopes.slice(start, start + page));
  return tape;
}

test.each(NAMES)("any place of a tape is the fold of what comes before it: %s", (name) => {
  const envelopes = golden(name);
  const tape = tapeOf(envelopes);
  const dice = random(name.length);
  for (let turn = 0; turn < 40; turn++) {
    const index = Math.floor(dice.next().value * (envelopes.length + 1));
    expect(tape.session(index)).toEqual(envelopes.slice(0, index).reduce(reduce, EMPTY));
  }
  expect(tape.end).toEqual(envelopes.reduce(reduce, EMPTY));
});

test("a long tape, read in pages that overlap, has each envelope once", () => {
  const one = golden("nested-agents.jsonl");
  const long = Array.from({ length: 20_000 }, (_, index) => {
    const envelope = one[index % one.length] as Envelope;
    return { ...envelope, position: index + 1, ts: index / 100 };
  });
  const tape = tapeOf(long, 1000);
  tape.add(long.slice(-50));
  expect(tape.length).toBe(long.length);
  const dice = random(9);
  for (let turn = 0; turn < 100; turn++) {
    const index = Math.floor(dice.next().value * long.length);
    expect(tape.session(index).position).toBe(index);
  }
});

test("hidden positions are skipped", () => {
  const tape = tapeOf(golden("one-tool.jsonl", 2));
  expect([tape.index(0), tape.index(1), tape.index(2), tape.index(5)]).toEqual([0, 0, 1, 2]);
  expect(tape.envelope(2)?.position).toBe(4);
  expect(tape.index(10_000)).toBe(tape.length);
});

test("a long pause is shortened and recorded", () => {
  const [one, two, three] = golden("one-tool.jsonl") as [Envelope, Envelope, Envelope];
  const tape = tapeOf([
    { ...one, ts: 100 },
    { ...two, ts: 101 },
    { ...three, ts: 4701 },
  ]);
  expect([0, 1, 2, 3].map((index) => tape.time(index))).toEqual([0, 0, 1, 1 + LONGEST_PAUSE]);
  expect(tape.pauses).toEqual([{ seconds: 4600, from: 1, to: 1 + LONGEST_PAUSE }]);
  expect([0, 1, 2, 3].map((index) => tape.pauseAfter(index)?.seconds)).toEqual([undefined, undefined, 4600, undefined]);
  expect([0, 0.9, 1, 3.9, 4, 99].map((time) => tape.indexAt(time))).toEqual([1, 1, 2, 2, 3, 3]);
});
