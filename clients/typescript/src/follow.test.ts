import { afterEach, expect, test, vi } from "vitest";
import { follow } from "./follow.js";
import { Problem } from "./problem.js";
import { SILENCE } from "./reconnect.js";
import { run } from "./testing/golden.js";
import { type Answer, cutAfter, problem, SSE, serving, whole } from "./testing/server.js";

const RUN = run("one-tool");
const LAST = RUN.length;

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Reads until the last envelope of the run. */
async function positions(url: string, options: Parameters<typeof follow>[1] = {}): Promise<number[]> {
  const seen: number[] = [];
  for await (const { position } of follow("s", { url, ...options })) {
    seen.push(position);
    if (position === LAST) break;
  }
  return seen;
}

const all = RUN.map((one) => one.position);

test("a connection that breaks repeatedly loses and repeats nothing", async () => {
  const cuts = [cutAfter(RUN, 0), cutAfter(RUN, 3, "id: 4\nda"), cutAfter(RUN, 1), problem(503, "busy")];
  const states: string[] = [];
  const url = await serving(...(cuts as [Answer]), whole(RUN));
  expect(await positions(url, { onConnection: (state) => states.push(state) })).toEqual(all);
  expect(states.filter((state) => state === "waiting")).toHaveLength(cuts.length);
});

test("envelopes that the server repeats are dropped", async () => {
  const twice: Answer = (_request, response) => {
    response.writeHead(200, SSE);
    response.write([...RUN, ...RUN].map((one) => `data: ${JSON.stringify(one)}\n\n`).join(""));
  };
  expect(await positions(await serving(twice))).toEqual(all);
});

test("following starts after the cursor, with the given profile and key", async () => {
  const asked: (string | undefined)[] = [];
  const url = await serving((request, response, wanted) => {
    asked.push(request.url, request.headers.authorization, request.headers.accept);
    whole(RUN)(request, response, wanted);
  });
  const seen = await positions(url, { after: LAST - 2, profile: "debug", key: "sw_k_s" });
  expect(seen).toEqual([LAST - 1, LAST]);
  expect(asked).toEqual([`/sessions/s/stream?after=${LAST - 2}&profile=debug`, "Bearer sw_k_s", "text/event-stream"]);
});

test.each([401, 403, 404])("status %d is final", async (status) => {
  const url = await serving(cutAfter(RUN, 2), problem(status, "no"));
  const error = await positions(url).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(Problem);
  expect(error).toMatchObject({ status, code: "no", detail: "It is no." });
});

test("a silent connection is closed and reopened", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const url = await serving(whole(RUN.slice(0, 2)), whole(RUN));
  const onConnection = (state: string) => void (state === "waiting" && setImmediate(() => vi.runAllTimers()));
  const seen: number[] = [];
  for await (const { position } of follow("s", { url, onConnection })) {
    seen.push(position);
    if (position === 2) setImmediate(() => vi.advanceTimersByTime(SILENCE));
    if (position === LAST) break;
  }
  expect(seen).toEqual(all);
});

test("the signal ends following without an error, also during a long Retry-After", async () => {
  const stopping = new AbortController();
  const timers = vi.spyOn(globalThis, "setTimeout");
  const url = await serving(cutAfter(RUN, 2), problem(503, "busy", { "Retry-After": "31536000" }));
  let waits = 0;
  const onConnection = (state: string) => {
    if (state === "waiting" && ++waits === 2) setImmediate(() => stopping.abort());
  };
  const seen: number[] = [];
  for await (const { position } of follow("s", { url, signal: stopping.signal, onConnection })) seen.push(position);
  expect(seen).toEqual([1, 2]);
  expect(timers.mock.calls.map(([, delay = 0]) => delay >= 2 ** 31)).not.toContain(true);
});

test.each(["connecting", "open", "waiting"] as const)(
  "a reader that leaves in the state %s is disconnected at once",
  async (word) => {
    const stopping = new AbortController();
    const onConnection = (state: string) => void (state === word && stopping.abort());
    const url = await serving(word === "waiting" ? problem(503, "busy", { "Retry-After": "3600" }) : whole([]));
    for await (const { position } of follow("s", { url, signal: stopping.signal, onConnection }))
      expect(position).toBe(0);
  },
);

const page: Answer = (_, response) => {
  response.writeHead(200, { "Content-Type": "text/html" });
  response.end("<html>Sign in</html>");
};
const nothing: Answer = (_, response) => {
  response.writeHead(200, SSE);
  response.end("data: null\n\n");
};

test("an unexpected response is reported as the reason and retried", async () => {
  const reasons: unknown[] = [];
  const url = await serving(page, nothing, whole(RUN));
  const onConnection = (state: string, why: unknown) => void (state === "waiting" && reasons.push(why));
  expect(await positions(url, { onConnection })).toEqual(all);
  expect(reasons).toMatchObject([{ code: "foreign_answer" }, { name: "TypeError" }]);
});
