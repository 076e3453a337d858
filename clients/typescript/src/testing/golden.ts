/** The golden runs of the server's tests, with their views and dialects. */
import { readdirSync, readFileSync } from "node:fs";
import type { Envelope } from "../envelope.gen.js";
import { reduce } from "../reduce.js";
import { EMPTY, type Session } from "../session.js";

const GOLDEN = new URL("../../../../tests/golden/", import.meta.url);

export const NAMES: readonly string[] = readdirSync(new URL("runs/", GOLDEN)).map((file) => file.replace(".jsonl", ""));

/** As a reader receives them: the line number is the position. */
export function run(name: string): Envelope[] {
  return lines(`runs/${name}.jsonl`).map((line, index) => ({
    position: index + 1,
    origin: "replay",
    session_id: "session",
    ...JSON.parse(line),
  }));
}

export function lines(file: string): string[] {
  return readFileSync(new URL(file, GOLDEN), "utf8").split("\n").filter(Boolean);
}

// biome-ignore lint/suspicious/noExplicitAny: the views are the server's, and have no type here
export function views(name: string): any {
  return JSON.parse(readFileSync(new URL(`views/${name}.json`, GOLDEN), "utf8"));
}

export function folded(envelopes: readonly Envelope[], from: Session = EMPTY): Session {
  return envelopes.reduce(reduce, from);
}
