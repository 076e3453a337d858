/** A small fake server on loopback, for failures that a real one shows only under stress. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { Envelope } from "../envelope.gen.js";

export type Answer = (request: IncomingMessage, response: ServerResponse, wanted: URLSearchParams) => void;

/** Serves one response after another; the last one is repeated. Returns the address. */
export async function serving(...answers: readonly [Answer, ...Answer[]]): Promise<string> {
  let count = 0;
  const server = createServer((request, response) => {
    const answer = answers[Math.min(count++, answers.length - 1)] ?? answers[0];
    answer(request, response, new URL(request.url ?? "/", "http://localhost").searchParams);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export const SSE = { "Content-Type": "text/event-stream" };

export function frames(envelopes: readonly Envelope[]): string {
  return envelopes.map((one) => `id: ${one.position}\ndata: ${JSON.stringify(one)}\n\n`).join("");
}

/** The first `count` envelopes after the cursor; then the connection breaks. */
export function cutAfter(envelopes: readonly Envelope[], count: number, half = ""): Answer {
  return (_, response, wanted) => {
    const after = Number(wanted.get("after"));
    response.writeHead(200, SSE);
    const some = envelopes.filter((one) => one.position > after).slice(0, count);
    response.write(frames(some) + half, () => response.destroy());
  };
}

/** The envelopes after the cursor; then the stream stays open. */
export function whole(envelopes: readonly Envelope[]): Answer {
  return (_, response, wanted) => {
    const after = Number(wanted.get("after"));
    response.writeHead(200, SSE);
    response.write(`: ping\n\n${frames(envelopes.filter((one) => one.position > after))}`);
  };
}

export function problem(status: number, code: string, headers: Record<string, string> = {}): Answer {
  return (_, response) => {
    response.writeHead(status, { "Content-Type": "application/problem+json", ...headers });
    response.end(JSON.stringify({ type: "about:blank", title: code, status, code, detail: `It is ${code}.` }));
  };
}
