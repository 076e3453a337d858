import type { Accepted, Session } from "@stellwerk/client";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { wordsFor } from "../../parts/Trouble";
import { Problem } from "../../server/ask";
import { sendMessage } from "../../server/conversation";
import { type Draft, type Outgoing, outgoing, useDraft, useOutbox } from "../../state/draft";
import { useTexts } from "../../texts";

/** Whether it may help to send it again: nobody has refused it. */
const isPassing = (error: Error) => error instanceof Problem && (error.status === 0 || error.status >= 502);

export interface Sending {
  /** Sent, and not in the log yet; the first is on its way. */
  waiting: readonly Outgoing[];
  /** Why that was not taken; null while it is tried. */
  error: string | null;
  send: (draft: Draft) => void;
  retry: () => void;
  /** Back into the box, to be changed. */
  takeBack: () => void;
}

/**
 * Sends messages, one at a time, in the order in which they were said. What was sent stays until the log has it, over a reload, too, and goes with the
 * same key however often it is tried: a line that broke behind the request does not double it.
 */
export function useSending(sid: string, session: Session): Sending {
  const texts = useTexts();
  const [waiting, change] = useOutbox(sid);
  const [draft, setDraft] = useDraft(sid);
  const first = waiting[0];
  const ifBusy = session.awaitingUserInput ? "reject" : "enqueue"; // a text that meets a question answers it
  const { mutate, error, data, isPending, variables } = useMutation<Accepted, Error, Outgoing>({
    mutationFn: ({ text, files, key }) =>
      sendMessage(sid, { text, documents: files.map(({ id }) => id), if_busy: ifBusy }, key),
    retry: (count, failure) => isPassing(failure) && count < 60,
    retryDelay: (count) => Math.min(500 * 2 ** count, 5_000),
  });
  const tried = useRef("");
  // Also one that a reload has left behind; if it was taken then, the server knows its key.
  useEffect(() => {
    if (!first || tried.current === first.key) return;
    tried.current = first.key;
    mutate(first);
  }, [first, mutate]);
  // What came of the one before is known until this one is on its way.
  const isTried = variables !== undefined && variables.key === first?.key;
  useEffect(() => {
    if (isTried && data && !isPending && session.position >= data.position)
      change((now) => now.filter(({ key }) => key !== variables.key));
  }, [isTried, data, isPending, session.position, variables, change]);
  return {
    waiting,
    error: isTried && error && !isPending ? wordsFor(error, texts) : null,
    send: (said) => change((now) => [...now, outgoing(said)]),
    retry: () => first && mutate(first),
    takeBack: () => {
      if (!first) return;
      const text = [first.text, draft.text].filter(Boolean).join("\n");
      setDraft({ text, files: [...first.files, ...draft.files] });
      change((now) => now.slice(1));
    },
  };
}
