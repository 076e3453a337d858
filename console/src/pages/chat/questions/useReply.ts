import { type Accepted, type NewAnswer, Problem } from "@stellwerk/client";
import {
  type Mutation,
  type MutationState,
  useMutation,
  useMutationState,
  useQueryClient,
} from "@tanstack/react-query";
import { useState } from "react";
import { wordsFor } from "../../../parts/Trouble";
import { freshKey, sendAnswer } from "../../../server/conversation";
import { useTexts } from "../../../texts";
import { fractionMark } from "../../../texts/figures";
import type { FormField } from "./schema";
import { initialOf, type Typed, typedValue } from "./typed";

/**
 * Answers a question; a line that is lost is tried again with the same key, so that it is answered once. What came of it
 * is known as long as the tab lives: the card may be out of sight when somebody else was faster.
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
    /** Of two fast clicks, the second comes before the first is drawn. */
    answer: (answer: NewAnswer) => queries.isMutating({ mutationKey }) === 0 && mutate({ answer, once: freshKey() }),
    /** Sent; what the log says of it comes next. */
    isSent: sent?.status === "pending" || sent?.status === "success",
    /** What came too late: the question was no longer open. */
    refused: problem?.status === 409 ? (sent?.variables?.answer ?? null) : null,
    /** Of a 422: what is to blame, `data.age`. */
    blamed: problem?.status === 422 ? (problem.field ?? "") : null,
    error: sent?.error ? wordsFor(sent.error, texts) : null,
  };
}

interface Sent {
  answer: NewAnswer;
  once: string;
}

const stateOf = ({ state }: Mutation) => state as MutationState<Accepted, Error, Sent>;

export type Reply = ReturnType<typeof useReply>;

/** A form and what is wrong with it: as we see it, and as the server did, at the field that it blames. */
export function useForm(field: FormField, refused: { blamed: string | null; error: string | null }, root = "data") {
  const { questions, language } = useTexts();
  const [typed, setTyped] = useState<Typed>(() => initialOf(field));
  const [isTried, setTried] = useState(false);
  const { value, objections } = typedValue(field, typed, fractionMark([language, navigator.language]));
  const own = Object.fromEntries(Object.entries(objections).map(([path, what]) => [path, questions[what]]));
  const place = refused.blamed?.startsWith(root) ? refused.blamed.slice(root.length + 1) : null;
  const hasPlace = place !== null && (place !== "" || field.shape.kind !== "object") && names(field, place);
  const theirs = hasPlace && refused.error ? { [place]: refused.error } : {};
  return {
    typed,
    setTyped,
    /** It stands as it was given. */
    isUntouched: JSON.stringify(typed) === JSON.stringify(initialOf(field)),
    errors: isTried ? { ...theirs, ...own } : theirs,
    /** What has no place in the form. */
    rest: hasPlace ? null : refused.error,
    /** Calls back with the value if it is complete. */
    submit(then: (value: unknown) => void) {
      setTried(true);
      if (Object.keys(objections).length === 0) then(value);
    },
  };
}

/** Whether a form has a field of this path. */
function names(field: FormField, path: string): boolean {
  if (path === "") return true;
  if (field.shape.kind !== "object") return false;
  const [first = "", ...rest] = path.split(".");
  const found = field.shape.fields.find(({ name }) => name === first);
  return found !== undefined && (found.shape.kind !== "object" || names(found, rest.join(".")));
}
