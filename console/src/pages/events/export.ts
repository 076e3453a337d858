import type { Client, Profile } from "@stellwerk/client";
import { address } from "../../server/ask";
import { pagesOf } from "./store";

/** The log as it is now, one event in each line. */
export async function exported(client: Client, sid: string, profile: Profile): Promise<Blob> {
  const parts: string[] = [];
  for await (const page of pagesOf(client, sid, { profile }))
    parts.push(page.map((envelope) => `${JSON.stringify(envelope)}\n`).join(""));
  return new Blob(parts, { type: "application/x-ndjson" });
}

/** A command that shows the same lines and goes on with what comes. The key is named, and not in it. */
export function curlOf(sid: string, profile: Profile, keyed: boolean): string {
  // What encodeURIComponent leaves alone would end the quotes, and the name in an address is anybody's.
  const name = encodeURIComponent(sid).replaceAll("'", "%27");
  const key = keyed ? ' -H "Authorization: Bearer $STELLWERK_KEY"' : "";
  const place = address(`/sessions/${name}/stream?profile=${profile}`);
  return `curl -N -H 'Accept: application/x-ndjson'${key} '${place}'`;
}
