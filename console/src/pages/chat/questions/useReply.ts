import { type Accepted, type NewAnswer, Problem } from "@stellwerk/client";
import {
  type Mutation,
  type MutationState,
  useMutation,
  useMutationState,
  useQueryClient,
} from "@tanstack/react-query";
import { errorText } from "../../../parts/ErrorNote";
import { freshKey, sendAnswer } from "../../../server/conversation";
import { useTexts } from "../../../texts";

/**
 * Answers a question; a lost connection is retried with the same key, so that it is answered once. The result is
 * kept for the tab: the card may be out of sight when an answer from elsewhere came first.
 */
export function useReply(sid: string, askId: string) {
  const texts = useTexts();
  const mutationKey = ["answer", sid, askId];
  const queries = useQueryClient();
  const { mutate } = useMutation({
    mutationKey,
    mutationFn: ({ answer, once }: Sent) => sendAnswer(sid, { ask_id: askId, ...answer }, once),
    retry: (count, error) => error instanceof Problem && error.status === 0 && count < 10,
    retryDelay: (count) => Math.min(500 * 2 ** count, 5_000),
    gcTime: Number.POSITIVE_INFINITY,
  });
  const sent = useMutationState({ filters: { mutationKey }, select: stateOf }).at(-1);
  const problem = sent?.error instanceof Problem ? sent.error : null;
  return {
    /** The second of two fast clicks arrives before the next render. */
    answer: (answer: NewAnswer) => queries.isMutating({ mutationKey }) === 0 && mutate({ answer, once: freshKey() }),
    /** Sent; the log will show the result. */
    isSent: sent?.status === "pending" || sent?.status === "success",
    /** Too late: the question was no longer open. */
    refused: problem?.status === 409 ? (sent?.variables?.answer ?? null) : null,
    /** For a 422: the invalid field, such as `data.age`. */
    blamed: problem?.status === 422 ? (problem.field ?? "") : null,
    error: sent?.error ? errorText(sent.error, texts) : null,
  };
}

interface Sent {
  answer: NewAnswer;
  once: string;
}

const stateOf = ({ state }: Mutation) => state as MutationState<Accepted, Error, Sent>;

export type Reply = ReturnType<typeof useReply>;
