import { useMemo, useSyncExternalStore } from "react";
import type { Client } from "./client.js";
import { type Live, type LiveOptions, LiveSession } from "./store.js";

export { type Live, type LiveOptions, LiveSession } from "./store.js";

/**
 * A session as it goes on, folded. The component is drawn anew at most once a frame, and only while the page can be
 * seen is there a connection. Another client, id or profile is another session; the other options count when it begins.
 */
export function useSession(client: Client, id: string, options: LiveOptions = {}): Live {
  const { profile } = options;
  // biome-ignore lint/correctness/useExhaustiveDependencies: options are often written in place, new for each drawing
  const live = useMemo(() => new LiveSession(client, id, options), [client, id, profile]);
  return useSyncExternalStore(live.subscribe, live.get, live.get);
}
