import type { Profile } from "./client.js";
import type { Envelope } from "./envelope.gen.js";
import { address, ask, type Place, part } from "./place.js";
import { foreign } from "./problem.js";
import { type Reconnecting, reconnecting, refused } from "./reconnect.js";
import { eventsOf } from "./sse.js";

export interface FollowOptions extends Place, Reconnecting {
  /** The position of the last envelope that you have; without it, from the start. */
  readonly after?: number | undefined;
  readonly profile?: Profile | undefined;
}

/**
 * The envelopes of a session, each once and in order, for as long as you read.
 *
 * A connection that breaks or falls silent comes back by position. The signal ends it without an error; a session that
 * is not there (404), or not yours (401), ends it with a `Problem`.
 */
export async function* follow(session: string, options: FollowOptions = {}): AsyncGenerator<Envelope, void, undefined> {
  const path = `/sessions/${part(session)}/stream`;
  let after = options.after ?? 0;
  const open = async (signal: AbortSignal) => {
    const url = address(options, path, { after, profile: options.profile });
    const response = await ask(options, url, { signal, cache: "no-store", headers: { Accept: SSE } });
    if (!response.headers.get("content-type")?.startsWith(SSE)) throw foreign(response);
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
    const told: Envelope | null = JSON.parse(event.data);
    if (typeof told?.position !== "number") throw new TypeError(`this is no envelope: ${event.data.slice(0, 100)}`);
    yield told;
  }
}
