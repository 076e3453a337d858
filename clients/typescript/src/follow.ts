import type { Profile } from "./client.js";
import type { Envelope } from "./envelope.gen.js";
import { address, ask, type Place } from "./place.js";
import { type Reconnecting, reconnecting, refused } from "./reconnect.js";
import { eventsOf } from "./sse.js";

export interface FollowOptions extends Place, Reconnecting {
  /** The position of the last envelope that you have; without it, from the start. */
  readonly after?: number;
  readonly profile?: Profile;
}

/**
 * The envelopes of a session, each once and in order, for as long as you read.
 *
 * A connection that breaks or falls silent comes back by position. The signal ends it without an error; a session that
 * is not there (404), or not yours (401), ends it with a `Problem`.
 */
export async function* follow(session: string, options: FollowOptions = {}): AsyncGenerator<Envelope, void, undefined> {
  const path = `/sessions/${encodeURIComponent(session)}/stream`;
  let after = options.after ?? 0;
  const open = (signal: AbortSignal) =>
    ask(options, address(options, path, { after, profile: options.profile }), {
      signal,
      cache: "no-store",
      headers: { Accept: "text/event-stream" },
    });
  const source = { open, read: envelopesOf, over: async () => false, final: refused };
  for await (const envelope of reconnecting(options, source)) {
    if (envelope.position <= after) continue;
    after = envelope.position;
    yield envelope;
  }
}

async function* envelopesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Envelope, void, undefined> {
  for await (const event of eventsOf(stream)) yield JSON.parse(event.data) as Envelope;
}
