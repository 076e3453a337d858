import { useMemo, useSyncExternalStore } from "react";
import type { Client } from "./client.js";
import { type Live, liveSession } from "./store.js";

export { type Live, LiveSession } from "./store.js";

/**
 * The live state of a session. The component renders at most once per frame. There is a connection only while the page
 * is visible, shared by all components that use this session with the same client.
 */
export function useSession(client: Client, id: string): Live {
  const { url, key, fetch } = client.options;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a client created in each render counts as the same one
  const live = useMemo(() => liveSession(client, id), [url, key, fetch, id]);
  return useSyncExternalStore(live.subscribe, live.get, live.get);
}
