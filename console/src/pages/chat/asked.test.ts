import type { Question, Session } from "@stellwerk/client";
import { expect, test } from "vitest";
import { askedIn } from "./asked";

const session = (...questions: Partial<Question>[]) =>
  ({ awaitingUserInput: questions.length > 0, questions }) as unknown as Session;

test("what a text answers is known by the questions that are open", () => {
  const approval = { kind: "approval", state: "open" } as const;
  const question = { kind: "question", state: "open" } as const;
  expect(askedIn(session())).toEqual({ kind: "nothing" });
  expect(askedIn(session(question))).toEqual({ kind: "question" });
  expect(askedIn(session({ ...approval, state: "answered" }, question))).toEqual({ kind: "question" });
  expect(askedIn(session(approval, question))).toEqual({ kind: "several" });
  expect(askedIn(session(approval))).toEqual({ kind: "approval", words: ["approve", "reject"] });
  expect(askedIn(session({ ...approval, options: ["edit", "approve"] }))).toMatchObject({ words: ["approve"] });
});
