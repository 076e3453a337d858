import { openQuestions, type Session } from "@stellwerk/client";

/** Decisions that are one word. */
const WORDS = ["approve", "reject"];

/** What a text answers now: nothing, the one question, an approval (only by these words), or nobody knows which. */
export type Asked =
  | { readonly kind: "nothing" | "question" | "several" }
  | { readonly kind: "approval"; readonly words: readonly string[] };

export function askedIn(session: Session): Asked {
  if (!session.awaitingUserInput) return { kind: "nothing" };
  const [one, ...others] = openQuestions(session);
  if (others.length) return { kind: "several" };
  if (one?.kind !== "approval") return { kind: "question" };
  return { kind: "approval", words: WORDS.filter((word) => one.options?.includes(word) ?? true) };
}
