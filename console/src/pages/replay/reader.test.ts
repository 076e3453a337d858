import type { Envelope, EventPage } from "@stellwerk/client";
import { expect, test } from "vitest";
import { LogReader } from "./reader";

/** A log of this many messages that rejects the first pages. */
function serverOf(count: number, refusals = 0) {
  const asked: number[] = [];
  const events = async (_: string, { after = 0, limit = 0 } = {}): Promise<EventPage> => {
    asked.push(after);
    if (asked.length <= refusals) throw new Error("not now");
    const positions = Array.from({ length: Math.min(limit, count - after) }, (_, index) => after + index + 1);
    const line = { type: "log", payload: { message: "x" }, call_id: "c", ts: 0 };
    return {
      events: positions.map((position) => ({ ...line, position }) as Envelope),
      next: positions.at(-1) ?? after,
    };
  };
  return { events, asked };
}

function until(reader: LogReader, so: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const look = () => so() && resolve();
    reader.subscribe(look);
    look();
  });
}

test("a log is read page by page, as far as requested", async () => {
  const server = serverOf(2500);
  const reader = new LogReader(server, "s");
  const read = until(reader, () => reader.get().position >= 2500);
  reader.want(2500);
  reader.want(10);
  await read;
  expect(server.asked).toEqual([0, 1000, 2000]);
  expect(reader.tape.length).toBe(2500);
  reader.want(2500);
  expect(server.asked).toHaveLength(3);
});

test("a failed page is retried on request", async () => {
  const server = serverOf(5, 2);
  const reader = new LogReader(server, "s");
  const failed = until(reader, () => reader.get().problem !== undefined);
  reader.want(5);
  await failed;
  reader.want(4);
  expect(server.asked).toEqual([0]);
  await Promise.resolve(); // the reader has finished its work
  reader.retry();
  await until(reader, () => reader.get().problem !== undefined);
  await Promise.resolve();
  const read = until(reader, () => reader.get().position >= 5);
  reader.want(6);
  await read;
  expect(reader.tape.length).toBe(5);
});
