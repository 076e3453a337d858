// @vitest-environment happy-dom
import type { Client, Connection, Envelope } from "@stellwerk/client";
import { expect, test } from "vitest";
import { WholeLog } from "./store";

/** A server that is unreachable until released. */
function serverAway(log: readonly Envelope[]) {
  let come = () => {};
  const here = new Promise<void>((resolve) => {
    come = resolve;
  });
  const server = {
    events: async () => {
      throw new TypeError("Failed to fetch");
    },
    follow: async function* (_: string, { onConnection }: { onConnection: (connection: Connection) => void }) {
      onConnection("waiting");
      await here;
      onConnection("open");
      yield* log;
    },
  };
  return { server: server as unknown as Client, come };
}

test("a log on an unreachable server is shown as unreachable, not as empty", async () => {
  const { server, come } = serverAway([{ type: "log", position: 1 } as Envelope]);
  const log = new WholeLog(server, "s", "user");
  const until = (so: () => boolean) =>
    new Promise<void>((resolve) => {
      log.subscribe(() => so() && resolve());
    });
  await until(() => log.get().isLost);
  expect(log.get().state).toBe("reading");
  come();
  await until(() => log.get().length === 1);
  expect(log.get()).toMatchObject({ state: "live", isLost: false });
});
