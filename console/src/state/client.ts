import { Client } from "@stellwerk/client";
import { useMemo } from "react";
import { address } from "../server/ask";
import { useKey } from "../server/key";

/** The server that this page came from, asked with the key of this tab. */
export function useClient(): Client {
  const key = useKey();
  return useMemo(() => new Client({ url: address(""), ...(key === null ? {} : { key }) }), [key]);
}
