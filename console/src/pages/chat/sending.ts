import type { Session } from "@stellwerk/client";
import { useEffect } from "react";
import { type Draft, useDraft, useFormDraft } from "../../state/draft";
import { drain, drop, forgive, type Outgoing, put, useOutbox } from "../../state/outbox";
import { sendWhenThere } from "../../state/uploads";

export interface Sending {
  /** Sent and not in the log yet; the first one is being sent. */
  waiting: readonly Outgoing[];
  send: (draft: Draft) => void;
  /** Sends the draft once its files are uploaded, whatever page is open then. */
  sendWhenThere: (draft: Draft) => void;
  retry: () => void;
  /** Moves the message back to the draft. */
  takeBack: (message: Outgoing) => void;
}

/** Messages are kept until the log has them, also across a reload, and sent in order. */
export function useSending(sid: string, session: Session): Sending {
  const waiting = useOutbox(sid);
  const [draft, setDraft] = useDraft(sid);
  const [, setForm] = useFormDraft(sid);
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
    sendWhenThere: ({ text, parameters }) => sendWhenThere(sid, { text, ifBusy, ...(parameters && { parameters }) }),
    retry: () => forgive(sid),
    takeBack: ({ key, text, files, parameters }) => {
      if (parameters) setForm({ given: parameters });
      setDraft({ text: [text, draft.text].filter(Boolean).join("\n"), files: [...files, ...draft.files] });
      drop(sid, (message) => message.key === key);
    },
  };
}
