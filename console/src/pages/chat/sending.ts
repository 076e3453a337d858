import type { Session } from "@stellwerk/client";
import { useEffect } from "react";
import { type Draft, useDraft } from "../../state/draft";
import { drain, drop, forgive, type Outgoing, put, useOutbox } from "../../state/outbox";
import { sendWhenThere } from "../../state/uploading";

export interface Sending {
  /** Said, and not in the log yet; the first is on its way. */
  waiting: readonly Outgoing[];
  send: (draft: Draft) => void;
  /** Sends what stands in the box when its files are there, whatever page is open then. */
  sendWhenThere: (draft: Draft) => void;
  retry: () => void;
  /** Back into the box, to be changed. */
  takeBack: (message: Outgoing) => void;
}

/** What is said stays until the log has it, over a reload, too, and is sent in the order in which it was said. */
export function useSending(sid: string, session: Session): Sending {
  const waiting = useOutbox(sid);
  const [draft, setDraft] = useDraft(sid);
  useEffect(() => {
    if (waiting.length) void drain(sid);
  }, [sid, waiting]);
  useEffect(() => {
    if (waiting.length) drop(sid, ({ position }) => position !== undefined && position <= session.position);
  }, [sid, waiting, session.position]);
  const ifBusy = session.awaitingUserInput && !waiting.length ? "reject" : "enqueue";
  return {
    waiting,
    send: (said) => put(sid, said, ifBusy),
    sendWhenThere: ({ text }) => sendWhenThere(sid, { text, ifBusy }),
    retry: () => forgive(sid),
    takeBack: ({ key, text, files }) => {
      setDraft({ text: [text, draft.text].filter(Boolean).join("\n"), files: [...files, ...draft.files] });
      drop(sid, (message) => message.key === key);
    },
  };
}
