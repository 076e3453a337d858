import type { Client, Profile } from "@stellwerk/client";
import { address } from "../../server/request";
import { pagesOf } from "./store";

/** The log as JSONL. */
export async function exported(client: Client, sid: string, profile: Profile): Promise<Blob> {
  const parts: string[] = [];
  for await (const page of pagesOf(client, sid, { profile }))
    parts.push(page.map((envelope) => `${JSON.stringify(envelope)}\n`).join(""));
  return new Blob(parts, { type: "application/x-ndjson" });
}

/** A curl command that prints the same lines and follows. It refers to the key by variable. */
export function curlOf(sid: string, profile: Profile, keyed: boolean): string {
  // Characters that encodeURIComponent keeps could end the quotes, and the name in a URL is untrusted.
  const name = encodeURIComponent(sid).replaceAll("'", "%27");
  const key = keyed ? ' -H "Authorization: Bearer $STELLWERK_KEY"' : "";
  const place = address(`/sessions/${name}/stream?profile=${profile}`);
  return `curl -N -H 'Accept: application/x-ndjson'${key} '${place}'`;
}
