import type { Session } from "@stellwerk/client";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { wordsFor } from "../../parts/Trouble";
import { Problem } from "../../server/ask";
import { type Accepted, sendMessage } from "../../server/conversation";
import { type Draft, type Outgoing, outgoing, useDraft, useOutgoing } from "../../state/draft";
import { useTexts } from "../../texts";

/** Whether it may help to send it again: nobody has refused it. */
const isPassing = (error: Error) => error instanceof Problem && (error.status === 0 || error.status >= 502);

export interface Sending {
  /** Sent, and not in the log yet. */
  waiting: Outgoing | null;
  /** Why it was not taken; null while it is tried. */
  error: string | null;
  send: (draft: Draft) => void;
  retry: () => void;
  /** Back into the box, to be changed. */
  takeBack: () => void;
}

/**
 * Sends messages, one at a time. What was sent stays until the log has it, over a reload, too, and goes with the
 * same key however often it is tried: a line that broke behind the request does not double it.
 */
export function useSending(sid: string, session: Session): Sending {
  const texts = useTexts();
  const [waiting, setWaiting] = useOutgoing(sid);
  const [, setDraft] = useDraft(sid);
  const isBusy = session.status === "running" && !session.awaitingUserInput;
  const { mutate, error, data, isPending, variables } = useMutation<Accepted, Error, Outgoing>({
    mutationFn: ({ text, files, key }) =>
      sendMessage(sid, { text, documents: files.map(({ id }) => id), if_busy: isBusy ? "enqueue" : "reject" }, key),
    networkMode: "always",
    retry: (count, failure) => isPassing(failure) && count < 60,
    retryDelay: (count) => Math.min(500 * 2 ** count, 5_000),
  });
  const tried = useRef("");
  // Also one that a reload has left behind; if it was taken then, the server knows its key.
  useEffect(() => {
    if (!waiting || tried.current === waiting.key) return;
    tried.current = waiting.key;
    mutate(waiting);
  }, [waiting, mutate]);
  // What came of the one before is known until this one is on its way.
  const isTried = variables !== undefined && variables.key === waiting?.key;
  useEffect(() => {
    if (isTried && data && !isPending && session.position >= data.position) setWaiting(null);
  }, [isTried, data, isPending, session.position, setWaiting]);
  return {
    waiting,
    error: isTried && error && !isPending ? wordsFor(error, texts) : null,
    send: (draft) => setWaiting(outgoing(draft)),
    retry: () => waiting && mutate(waiting),
    takeBack: () => {
      if (waiting) setDraft({ text: waiting.text, files: waiting.files });
      setWaiting(null);
    },
  };
}
