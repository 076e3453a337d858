import type { Session } from "@stellwerk/client";
import { EventLink } from "../../parts/EventLink";
import { FilePreview } from "../../parts/FilePreview";
import { type FileRef, storedFile } from "../../parts/files";
import { useTexts } from "../../texts";
import { clock } from "../../texts/time";

/** The files of a session, including its to-do list. */
export function Documents({ sid, session }: { sid: string; session: Session }) {
  const { panel, language } = useTexts();
  const { documents, checklist } = session;
  const todolist: FileRef = {
    name: "todolist.md",
    mime: "text/markdown",
    path: `/sessions/${encodeURIComponent(sid)}/artifacts/todolist.md`,
    version: checklist.version,
  };
  return (
    <ul className="space-y-3 p-4">
      {documents.map(({ documentId, name, mime, size, agent, addedAt }) => (
        <li key={`${documentId} ${name}`}>
          <FilePreview
            file={storedFile(documentId, name, mime, size)}
            note={[agent, clock(addedAt, language)].filter(Boolean).join(" · ")}
            link={<EventLink sid={sid} type="document" text={documentId} of={name} />}
          />
        </li>
      ))}
      {checklist.version > 0 && (
        <li>
          <FilePreview
            file={todolist}
            note={panel.todolist}
            link={<EventLink sid={sid} position={session.states.checklist?.position} of={todolist.name} />}
          />
        </li>
      )}
    </ul>
  );
}
