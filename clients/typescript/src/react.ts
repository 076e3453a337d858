import { useMemo, useSyncExternalStore } from "react";
import type { Client } from "./client.js";
import { type Live, liveSession } from "./store.js";

export { type Live, LiveSession } from "./store.js";

/**
 * A session as it goes on, folded. The component is drawn anew at most once a frame, and only while the page can be
 * seen is there a connection: one for all components that look at the session with the same client.
 */
export function useSession(client: Client, id: string): Live {
  const { url, key, fetch } = client.place;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a client that is made anew for each drawing is the same one
  const live = useMemo(() => liveSession(client, id), [url, key, fetch, id]);
  return useSyncExternalStore(live.subscribe, live.get, live.get);
}
