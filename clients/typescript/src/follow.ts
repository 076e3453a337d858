import type { Profile } from "./client.js";
import type { Envelope } from "./envelope.gen.js";
import { unexpectedResponse } from "./problem.js";
import { type ReconnectOptions, reconnecting, refused } from "./reconnect.js";
import { address, type ClientOptions, request, segment } from "./request.js";
import { eventsOf } from "./sse.js";

export interface FollowOptions extends ClientOptions, ReconnectOptions {
  /** The position of the last envelope you have; 0 by default, which reads from the start. */
  readonly after?: number | undefined;
  readonly profile?: Profile | undefined;
}

/**
 * The envelopes of a session, each once and in order, for as long as you iterate.
 *
 * A broken or silent connection is reopened at the last position. The signal ends the iteration without an error; an
 * unknown session (404) or a rejected key (401) ends it with a `Problem`.
 */
export async function* follow(session: string, options: FollowOptions = {}): AsyncGenerator<Envelope, void, undefined> {
  const path = `/sessions/${segment(session)}/stream`;
  let after = options.after ?? 0;
  const open = async (signal: AbortSignal) => {
    const url = address(options, path, { after, profile: options.profile });
    const response = await request(options, url, { signal, cache: "no-store", headers: { Accept: SSE } });
    if (!response.headers.get("content-type")?.startsWith(SSE)) throw unexpectedResponse(response);
    return response;
  };
  const source = { open, read: envelopesOf, over: async () => false, final: refused };
  for await (const envelope of reconnecting(options, source)) {
    if (envelope.position <= after) continue;
    after = envelope.position;
    yield envelope;
  }
}

const SSE = "text/event-stream";

async function* envelopesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Envelope, void, undefined> {
  for await (const event of eventsOf(stream)) {
    const envelope: Envelope | null = JSON.parse(event.data);
    if (typeof envelope?.position !== "number") throw new TypeError(`not an envelope: ${event.data.slice(0, 100)}`);
    yield envelope;
  }
}
