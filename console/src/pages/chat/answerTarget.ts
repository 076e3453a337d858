import { openQuestions, type Session } from "@stellwerk/client";

/** Decisions that consist of one word. */
const WORDS = ["approve", "reject"];

/** What a text answers now: nothing, the only question, an approval (with these words), or an ambiguous one. */
export type Asked =
  | { readonly kind: "nothing" | "question" | "several" }
  | { readonly kind: "approval"; readonly words: readonly string[] };

export function answerTargetIn(session: Session): Asked {
  if (!session.awaitingUserInput) return { kind: "nothing" };
  const [one, ...others] = openQuestions(session);
  if (others.length) return { kind: "several" };
  if (one?.kind !== "approval") return { kind: "question" };
  return { kind: "approval", words: WORDS.filter((word) => one.options?.includes(word) ?? true) };
}
