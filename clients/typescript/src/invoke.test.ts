import { expect, onTestFinished, test, vi } from "vitest";
import { type AiMessage, dispatch } from "./dispatch.js";
import type { StreamEvent } from "./events.js";
import { invokeAgent } from "./invoke.js";
import { SILENCE } from "./reconnect.js";
import { lines } from "./testing/golden.js";
import { type Answer, problem, serving } from "./testing/server.js";

const LINES = lines("events/failing-tool.jsonl");
const REQUEST = { messages: [{ role: "user", content: "Go." }] } as const;
const ids = LINES.map((line) => (JSON.parse(line) as StreamEvent).id);

/** The first `count` lines after the cursor; then the response ends or the connection breaks. */
function eventLines(count: number, how: "end" | "destroy"): Answer {
  return (_, response, wanted) => {
    response.writeHead(200, { "Content-Type": "application/x-ndjson", "Stellwerk-Session": "s1" });
    const from = ids.indexOf(wanted.get("after") ?? "") + 1;
    response.write(
      ` ${LINES.slice(from, from + count).join("\n ")}\n{"ty`.slice(0, how === "end" ? -4 : undefined),
      () => response[how](),
    );
  };
}

function standing(status: string): Answer {
  return (_, response) => response.end(JSON.stringify({ id: "s1", status, awaiting_user_input: false }));
}

test("every event arrives once, across a broken connection and a server restart", async () => {
  const asked: string[] = [];
  const noted =
    (answer: Answer): Answer =>
    (request, ...rest) => {
      asked.push(`${request.method} ${request.url}`);
      answer(request, ...rest);
    };
  const answers = [
    eventLines(2, "destroy"),
    eventLines(1, "end"),
    standing("running"),
    eventLines(99, "end"),
    standing("completed"),
  ];
  const url = await serving(...(answers.map(noted) as [Answer]));
  const seen: StreamEvent[] = [];
  expect(await invokeAgent(REQUEST, { url, onEvent: (event) => seen.push(event) })).toBe("s1");
  expect(seen.map((event) => event.id)).toEqual(ids);
  expect(asked[0]).toBe("POST /stream-test?dialect=events");
  expect(asked[1]).toBe(`GET /sessions/s1/stream?dialect=events&after=${ids[1]}&until=run_end`);
  const [message] = seen.reduce<readonly AiMessage[]>(
    (all, event) => dispatch(all, "ai", event),
    [{ id: "ai", content: "" }],
  );
  expect(message).toMatchObject({ content: expect.stringMatching(/^It failed: ConnectionError: .* a\.test$/) });
});

test("a request that fails to send is not retried", async () => {
  let count = 0;
  const url = await serving((request, ...rest) => {
    count += 1;
    problem(503, "overloaded")(request, ...rest);
  });
  await expect(invokeAgent(REQUEST, { url, onEvent: () => undefined })).rejects.toMatchObject({ code: "overloaded" });
  expect(count).toBe(1);
});

test("the signal also ends the check whether the run is over", async () => {
  const stopping = new AbortController();
  const url = await serving(eventLines(99, "end"), () => stopping.abort());
  const invoked = invokeAgent(REQUEST, { url, signal: stopping.signal, onEvent: () => undefined });
  await expect(invoked).rejects.toMatchObject({ name: "AbortError" });
});

/** As in Node 20 and 22 if the last byte arrives during the abort: the body neither continues nor ends. */
async function deaf(): Promise<Response> {
  const whole = new TextEncoder().encode(`${LINES.join("\n")}\n`);
  const body = new ReadableStream<Uint8Array>({ start: (control) => control.enqueue(whole) });
  return new Response(body, { headers: { "Stellwerk-Session": "s1" } });
}

test("the signal ends the call at the last event, even if the body ignores the abort", async () => {
  const stopping = new AbortController();
  const onEvent = (event: StreamEvent) => void (event.id === ids.at(-1) && stopping.abort());
  const invoked = invokeAgent(REQUEST, { fetch: deaf, signal: stopping.signal, onEvent });
  await expect(invoked).rejects.toMatchObject({ name: "AbortError" });
});

test("a server that accepts the request and stays silent is a problem, not an abort", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const url = await serving(() => setImmediate(() => vi.advanceTimersByTime(SILENCE)));
  const invoked = invokeAgent(REQUEST, { url, onEvent: () => undefined });
  await expect(invoked).rejects.toMatchObject({ name: "Problem", code: "silent", status: 0 });
});

test("a response without a session id is rejected", async () => {
  const url = await serving((_, response) => response.end(`${LINES.join("\n")}\n`));
  const invoked = invokeAgent(REQUEST, { url, onEvent: () => undefined });
  await expect(invoked).rejects.toMatchObject({ name: "Problem", code: "foreign_answer" });
});

test("the signal ends the call", async () => {
  const stopping = new AbortController();
  const url = await serving((_, response) => {
    response.writeHead(200, { "Stellwerk-Session": "s1" });
    response.write(`${LINES[0]}\n`);
  });
  const invoked = invokeAgent(REQUEST, { url, signal: stopping.signal, onEvent: () => stopping.abort() });
  await expect(invoked).rejects.toMatchObject({ name: "AbortError" });
});
