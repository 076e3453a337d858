import { Client } from "@stellwerk/client";
import { address, headers, Problem } from "./ask";
import { currentKey, keyRefused } from "./key";

/** The server that the page came from, with the key of this tab as it is at each request. */
export const client = new Client({
  fetch: async (path, init = {}) => {
    const key = currentKey();
    const all = new Headers(init.headers);
    for (const [name, value] of Object.entries(headers())) all.set(name, value);
    const answer = await fetch(address(String(path)), { ...init, headers: all }).catch((error: unknown) => {
      throw init.signal?.aborted ? error : new Problem(0, "unreachable", "");
    });
    if (answer.status === 401) keyRefused(key);
    return answer;
  },
});
