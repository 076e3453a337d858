import type { Client, Envelope } from "@stellwerk/client";
import { expect, test } from "vitest";
import { type Read, UpdatesReader } from "./updates";

const log = Array.from(
  { length: 2_500 },
  (_, index) => ({ position: index + 1, type: index % 500 === 0 ? "update" : "log", payload: {} }) as Envelope,
);

function serving(asked: unknown[], fails = 0): Pick<Client, "events"> {
  let left = fails;
  return {
    events: async (_, { after = 0, limit = 500, profile } = {}) => {
      asked.push([after, profile]);
      if (left-- > 0) throw new Error("away");
      const events = log.slice(after, after + limit);
      return { events, next: events.at(-1)?.position ?? after };
    },
  };
}

function until(reader: UpdatesReader, is: (read: Read) => boolean): Promise<Read> {
  return new Promise((found) => {
    const leave = reader.subscribe(() => {
      if (!is(reader.get())) return;
      leave();
      found(reader.get());
    });
  });
}

test("nothing is read before it is shown; then pages are read in the debug profile", async () => {
  const asked: unknown[] = [];
  const reader = new UpdatesReader(serving(asked), "s", 0);
  const whole = until(reader, ({ position }) => position === 2_500);
  expect(asked).toEqual([]);
  reader.want(2_500);
  const { updates } = await whole;
  expect(updates.map(({ position }) => position)).toEqual([1, 501, 1_001, 1_501, 2_001]);
  expect(asked).toEqual([
    [0, "debug"],
    [1_000, "debug"],
    [2_000, "debug"],
  ]);
});

test("a failed read is retried after the next event", async () => {
  const asked: unknown[] = [];
  const reader = new UpdatesReader(serving(asked, 1), "s", 0);
  const failed = until(reader, ({ problem }) => problem !== undefined);
  reader.want(1_000);
  await failed;
  await Promise.resolve();
  const whole = until(reader, ({ position }) => position >= 1_000);
  reader.want(1_001);
  expect((await whole).updates).toHaveLength(2);
});
