import type { Live } from "@stellwerk/client";
import { useState } from "react";

type Line = Live["connection"];

/** The connection state as shown: a lost connection stays lost until it is open again, across retries. */
export function useConnection(connection: Line): Line {
  const [known, setKnown] = useState(connection);
  const now = connection === "connecting" && known === "waiting" ? known : connection;
  if (now !== known) setKnown(now);
  return now;
}
