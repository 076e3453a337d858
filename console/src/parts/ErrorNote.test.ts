import { Problem } from "@stellwerk/client";
import { expect, test } from "vitest";
import { LANGUAGES } from "../texts";
import { errorText } from "./ErrorNote";

test("the server's text is shown as a sentence, and only if the page has no text of its own", () => {
  const textFor = (code: string, detail: string) => errorText(new Problem(409, { code, detail }), LANGUAGES.en);
  expect(textFor("x", "there is no such thing")).toBe("There is no such thing");
  expect(textFor("x", "data.age: this must be a number")).toBe("data.age: this must be a number");
  expect(textFor("unknown_session", "there is no session 'x'; POST /sessions makes one")).not.toContain("POST");
  expect(textFor("x", "")).toBe(LANGUAGES.en.problems.unknown);
});
