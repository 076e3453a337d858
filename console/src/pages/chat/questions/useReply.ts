import type { NewAnswer } from "@stellwerk/client";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { wordsFor } from "../../../parts/Trouble";
import { Problem } from "../../../server/ask";
import { freshKey, sendAnswer } from "../../../server/conversation";
import { useTexts } from "../../../texts";
import type { FormField } from "./schema";
import { initialOf, type Typed, typedValue } from "./typed";

/** Answers a question; a line that is lost is tried again with the same key, so that it is answered once. */
export function useReply(sid: string, askId: string) {
  const texts = useTexts();
  const reply = useMutation({
    mutationFn: ({ answer, once }: { answer: NewAnswer; once: string }) =>
      sendAnswer(sid, { ask_id: askId, ...answer }, once),
    retry: (count, error) => error instanceof Problem && error.status === 0 && count < 10,
    retryDelay: (count) => Math.min(500 * 2 ** count, 5_000),
  });
  const problem = reply.error instanceof Problem ? reply.error : null;
  return {
    answer: (answer: NewAnswer) => reply.mutate({ answer, once: freshKey() }),
    /** Sent; what the log says of it comes next. */
    isSent: reply.isPending || reply.isSuccess,
    /** Of a 422: what is to blame, `data.age`. */
    blamed: problem?.status === 422 ? (problem.field ?? "") : null,
    error: reply.error ? wordsFor(reply.error, texts) : null,
  };
}

/** A form and what is wrong with it: as we see it, and as the server did, at the field that it blames. */
export function useForm(field: FormField, refused: { blamed: string | null; error: string | null }, root = "data") {
  const { questions } = useTexts();
  const [typed, setTyped] = useState<Typed>(() => initialOf(field));
  const [isTried, setTried] = useState(false);
  const { value, objections } = typedValue(field, typed);
  const own = Object.fromEntries(Object.entries(objections).map(([path, what]) => [path, questions[what]]));
  const place = refused.blamed?.startsWith(root) ? refused.blamed.slice(root.length + 1) : null;
  const hasPlace = place !== null && (place !== "" || field.shape.kind !== "object") && names(field, place);
  const theirs = hasPlace && refused.error ? { [place]: refused.error } : {};
  return {
    typed,
    setTyped,
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
