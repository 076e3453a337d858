import { Client } from "@stellwerk/client";
import { address, headers, unreachable } from "./ask";
import { currentKey, keyRefused } from "./key";
import { followInTurn } from "./slots";

/**
 * The server that the page came from, with the key of this tab as it is at each request; a key that is refused is asked
 * for again. It follows a session with a stream only if the windows of this browser leave it a connection.
 */
export class PageClient extends Client {
  constructor() {
    super({ fetch: fetchHere });
  }

  override follow(...[sid, wishes = {}]: Parameters<Client["follow"]>): ReturnType<Client["follow"]> {
    const { profile } = wishes;
    return followInTurn(
      (now) => super.follow(sid, now),
      (after, signal) => this.events(sid, { after, profile, limit: 1_000 }, signal),
      wishes,
    );
  }
}

const fetchHere: typeof fetch = async (path, init = {}) => {
  const key = currentKey();
  const all = new Headers(init.headers);
  for (const [name, value] of Object.entries(headers())) all.set(name, value);
  const answer = await fetch(address(String(path)), { ...init, headers: all }).catch((error: unknown) => {
    throw init.signal?.aborted ? error : unreachable();
  });
  if (answer.status === 401) keyRefused(key);
  return answer;
};

export const client: Client = new PageClient();
