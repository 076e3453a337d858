import { Problem } from "@stellwerk/client";
import { expect, test } from "vitest";
import { LANGUAGES } from "../texts";
import { wordsFor } from "./Trouble";

test("the server is quoted in sentences, and only where the page has no words of its own", () => {
  const told = (code: string, detail: string) => wordsFor(new Problem(409, { code, detail }), LANGUAGES.en);
  expect(told("x", "there is no such thing")).toBe("There is no such thing");
  expect(told("x", "data.age: this must be a number")).toBe("data.age: this must be a number");
  expect(told("unknown_session", "there is no session 'x'; POST /sessions makes one")).not.toContain("POST");
  expect(told("x", "")).toBe(LANGUAGES.en.problems.unknown);
});
