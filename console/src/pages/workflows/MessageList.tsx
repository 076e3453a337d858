import type { WorkflowMessage } from "@stellwerk/client";
import { Markdown } from "../../parts/Markdown";
import { useTexts } from "../../texts";
import { DocumentRow } from "./DocumentRow";

/** The messages with their files. */
export function MessageList({ messages }: { messages: readonly WorkflowMessage[] }) {
  const { workflows: words } = useTexts();
  return (
    <ol aria-label={words.messages} className="space-y-6">
      {messages.map(({ id, role, agentName, content, documents }) => (
        <li key={id}>
          <p className="mb-1 text-sm font-semibold">{role === "user" ? words.you : agentName}</p>
          {role === "user" ? (
            <p className="break-words whitespace-pre-wrap">{content}</p> // as typed
          ) : (
            <Markdown text={content} />
          )}
          {documents.length > 0 && (
            <ul className="mt-3 flex flex-wrap gap-2">
              {documents.map((document) => (
                <DocumentRow key={document.id + document.name} document={document} />
              ))}
            </ul>
          )}
        </li>
      ))}
    </ol>
  );
}
