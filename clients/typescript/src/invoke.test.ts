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

/** The lines behind the cursor, as many as said; then the answer ends, or the line is cut. */
function told(count: number, how: "end" | "destroy"): Answer {
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

test("every event comes once, though the line is cut, and the server shuts down in the middle", async () => {
  const asked: string[] = [];
  const noted =
    (answer: Answer): Answer =>
    (request, ...rest) => {
      asked.push(`${request.method} ${request.url}`);
      answer(request, ...rest);
    };
  const answers = [told(2, "destroy"), told(1, "end"), standing("running"), told(99, "end"), standing("completed")];
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
  expect(message).toMatchObject({ content: "It failed: ConnectionError: nobody answers at a.test" });
});

test("what cannot be sent is not sent twice", async () => {
  let count = 0;
  const url = await serving((request, ...rest) => {
    count += 1;
    problem(503, "overloaded")(request, ...rest);
  });
  await expect(invokeAgent(REQUEST, { url, onEvent: () => undefined })).rejects.toMatchObject({ code: "overloaded" });
  expect(count).toBe(1);
});

test("the signal ends it also while it asks whether that was all", async () => {
  const stopping = new AbortController();
  const url = await serving(told(99, "end"), () => stopping.abort());
  const invoked = invokeAgent(REQUEST, { url, signal: stopping.signal, onEvent: () => undefined });
  await expect(invoked).rejects.toMatchObject({ name: "AbortError" });
});

/** As Node 20 and 22 give it if the last byte comes in the moment of the abort: it neither goes on nor ends. */
async function deaf(): Promise<Response> {
  const whole = new TextEncoder().encode(`${LINES.join("\n")}\n`);
  const body = new ReadableStream<Uint8Array>({ start: (control) => control.enqueue(whole) });
  return new Response(body, { headers: { "Stellwerk-Session": "s1" } });
}

test("the signal ends it also at the last event, if the body does not hear of it", async () => {
  const stopping = new AbortController();
  const onEvent = (event: StreamEvent) => void (event.id === ids.at(-1) && stopping.abort());
  const invoked = invokeAgent(REQUEST, { fetch: deaf, signal: stopping.signal, onEvent });
  await expect(invoked).rejects.toMatchObject({ name: "AbortError" });
});

test("a server that takes the request and says nothing is a problem, and nobody's abort", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const url = await serving(() => setImmediate(() => vi.advanceTimersByTime(SILENCE)));
  const invoked = invokeAgent(REQUEST, { url, onEvent: () => undefined });
  await expect(invoked).rejects.toMatchObject({ name: "Problem", code: "silent", status: 0 });
});

test("an answer that no session is named for is no answer of ours", async () => {
  const url = await serving((_, response) => response.end(`${LINES.join("\n")}\n`));
  const invoked = invokeAgent(REQUEST, { url, onEvent: () => undefined });
  await expect(invoked).rejects.toMatchObject({ name: "Problem", code: "foreign_answer" });
});

test("the signal ends it", async () => {
  const stopping = new AbortController();
  const url = await serving((_, response) => {
    response.writeHead(200, { "Stellwerk-Session": "s1" });
    response.write(`${LINES[0]}\n`);
  });
  const invoked = invokeAgent(REQUEST, { url, signal: stopping.signal, onEvent: () => stopping.abort() });
  await expect(invoked).rejects.toMatchObject({ name: "AbortError" });
});
