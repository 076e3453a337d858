import type { WorkflowDocument, WorkflowMessage } from "@stellwerk/client";
import { save, storedFile } from "../../parts/files";
import { askBlob } from "../../server/ask";

export const fileName = ({ name, ext }: WorkflowDocument): string => (ext ? `${name}.${ext}` : name);

export interface Made {
  document: WorkflowDocument;
  agent: string;
}

/** What the agents have made: of each name the last one, in the order in which they first came. */
export function madeIn(messages: readonly WorkflowMessage[]): readonly Made[] {
  const made = new Map<string, Made>();
  for (const { role, agentName, documents } of messages)
    if (role !== "user")
      for (const document of documents) {
        const name = fileName(document); // the last message has all of them once more, and is not who made them
        made.set(name, { document, agent: made.get(name)?.agent ?? agentName });
      }
  return [...made.values()];
}

/** Bytes that came from the user, and that went to the user. */
export function bytesOf(messages: readonly WorkflowMessage[]): { received: number; sent: number } {
  const sum = (figure: "bytesReceived" | "bytesSent") =>
    messages.reduce((whole, { dataStats }) => whole + dataStats[figure], 0);
  return { received: sum("bytesReceived"), sent: sum("bytesSent") };
}

/** Fetched with the key, which a link could not send; then the browser is given it as a file. */
export async function download(document: WorkflowDocument): Promise<void> {
  const name = fileName(document);
  const { path } = storedFile(document.id.replace(/^doc_/, ""), name, "");
  save(await askBlob(path), name);
}
