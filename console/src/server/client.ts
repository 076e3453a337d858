import { Client } from "@stellwerk/client";
import { currentKey, keyRefused } from "./key";
import { address, headers, unreachable } from "./request";
import { followInTurn } from "./streamSlots";

/**
 * A client of the server that served the page. It uses the tab's current key for each request and asks for another after
 * a 401. It follows sessions with a stream only if a connection is free.
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
