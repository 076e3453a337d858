import type { WorkflowDocument, WorkflowMessage } from "@stellwerk/client";
import { type FileRef, storedFile } from "../../parts/files";

export const fileName = ({ name, ext }: WorkflowDocument): string => (ext ? `${name}.${ext}` : name);

export interface Made {
  document: WorkflowDocument;
  agent: string;
}

/** The documents the agents created: the last one of each name, in order of first appearance. */
export function madeIn(messages: readonly WorkflowMessage[]): readonly Made[] {
  const made = new Map<string, Made>();
  for (const { role, agentName, documents } of messages)
    if (role !== "user")
      for (const document of documents) {
        const name = fileName(document); // the last message repeats all of them and is not their author
        made.set(name, { document, agent: made.get(name)?.agent ?? agentName });
      }
  return [...made.values()];
}

/** Bytes received from the user and delivered to the user; a file named by several messages counts once. */
export function bytesOf(messages: readonly WorkflowMessage[]): { received: number; sent: number } {
  const delivered = new Set<string>();
  let [received, sent] = [0, 0];
  for (const { role, dataStats, documents } of messages) {
    received += dataStats.bytesReceived;
    sent += dataStats.bytesSent;
    if (role !== "user")
      for (const { id, size } of documents) {
        if (delivered.has(id)) sent -= size;
        delivered.add(id);
      }
  }
  return { received, sent };
}

export const fileOf = (document: WorkflowDocument): FileRef =>
  storedFile(document.id.replace(/^doc_/, ""), fileName(document), "");
