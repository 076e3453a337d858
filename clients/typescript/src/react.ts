import { useMemo, useSyncExternalStore } from "react";
import type { Client } from "./client.js";
import { type Live, LiveSession } from "./store.js";

export { type Live, LiveSession } from "./store.js";

/**
 * A session as it goes on, folded. The component is drawn anew at most once a frame, and only while the page can be
 * seen is there a connection.
 */
export function useSession(client: Client, id: string): Live {
  const live = useMemo(() => new LiveSession(client, id), [client, id]);
  return useSyncExternalStore(live.subscribe, live.get, live.get);
}
