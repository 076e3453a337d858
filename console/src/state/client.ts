import type { Client } from "@stellwerk/client";
import { useMemo } from "react";
import { PageClient } from "../server/client";
import { useKey } from "../server/key";

/** Another client with each key, so that what was read with the one before is read anew. */
export function useClient(): Client {
  const key = useKey();
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is the key whose change matters
  return useMemo(() => new PageClient(), [key]);
}
