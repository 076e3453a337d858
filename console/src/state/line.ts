import type { Live } from "@stellwerk/client";
import { useState } from "react";

type Line = Live["connection"];

/** How the line to a session is, to whoever shows it: one that is lost stays so until it is open again, however often it is tried. */
export function useLine(connection: Line): Line {
  const [known, setKnown] = useState(connection);
  const now = connection === "connecting" && known === "waiting" ? known : connection;
  if (now !== known) setKnown(now);
  return now;
}
