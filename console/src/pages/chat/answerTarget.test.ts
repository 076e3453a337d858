import type { Question, Session } from "@stellwerk/client";
import { expect, test } from "vitest";
import { answerTargetIn } from "./answerTarget";

const session = (...questions: Partial<Question>[]) =>
  ({ awaitingUserInput: questions.length > 0, questions }) as unknown as Session;

test("the open questions decide what a text answers", () => {
  const approval = { kind: "approval", state: "open" } as const;
  const question = { kind: "question", state: "open" } as const;
  expect(answerTargetIn(session())).toEqual({ kind: "nothing" });
  expect(answerTargetIn(session(question))).toEqual({ kind: "question" });
  expect(answerTargetIn(session({ ...approval, state: "answered" }, question))).toEqual({ kind: "question" });
  expect(answerTargetIn(session(approval, question))).toEqual({ kind: "several" });
  expect(answerTargetIn(session(approval))).toEqual({ kind: "approval", words: ["approve", "reject"] });
  expect(answerTargetIn(session({ ...approval, options: ["edit", "approve"] }))).toMatchObject({ words: ["approve"] });
});
