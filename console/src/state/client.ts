import type { Client } from "@stellwerk/client";
import { useMemo } from "react";
import { PageClient } from "../server/client";
import { useKey } from "../server/key";

/** A new client for each key, so that data of the old key is reloaded. */
export function useClient(): Client {
  const key = useKey();
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs when the key changes
  return useMemo(() => new PageClient(), [key]);
}
