import { expect, test } from "vitest";
import { LANGUAGES, languageOf } from ".";
import { ago } from "./time";

const leaves = (value: unknown, path = ""): string[] =>
  typeof value === "object" && value !== null
    ? Object.entries(value).flatMap(([key, inner]) => leaves(inner, `${path}.${key}`))
    : [`${path}:${typeof value}${value === "" ? " empty" : ""}`];

test("every language has the same texts, and none is empty", () => {
  const english = leaves(LANGUAGES.en);
  expect(leaves(LANGUAGES.de)).toEqual(english);
  expect(english.filter((leaf) => leaf.endsWith("empty"))).toEqual([]);
});

test.each(Object.values(LANGUAGES))("one is not many, and two are ($language)", ({ events, parts, systems, tools }) => {
  const counts = [
    (n: number) => events.count(`${n}`, `${n}`),
    parts.rows,
    systems.agentCount,
    systems.toolCount,
    tools.found,
  ];
  for (const count of counts) expect(count(1).replace("1", "2")).not.toBe(count(2));
  expect(systems.pictureLabel("x", 1, 1)).toContain(`${systems.agentCount(1)} `);
});

test("the language is the chosen one, else the browser's, else English", () => {
  expect(languageOf("en", ["de-DE"])).toBe("en");
  expect(languageOf(null, ["fr", "de-AT", "en"])).toBe("de");
  expect(languageOf("xx", ["fr"])).toBe("en");
});

test("relative times are written in words", () => {
  expect(ago(1000, 1003, "en")).toBe("now");
  expect(ago(0, 3 * 3600 + 5, "de")).toBe("vor 3 Stunden");
  expect(ago(0, 90, "en")).toBe("1 minute ago");
  expect(ago(0, 90, "de", "short")).toBe("vor 1 Min.");
});

test.each(Object.values(LANGUAGES))(
  "problems have texts for readers, without talk of requests ($language)",
  ({ problems }) => {
    const codes = ["session", "workflow", "message"].map((kind) => `unknown_${kind}`);
    codes.push(
      "session_busy",
      "question_open",
      "not_asked",
      "which_question",
      "not_a_run_end",
      "not_now",
      "key_reused",
    );
    for (const code of [...codes, "system_gone"]) expect(problems.byCode(code)).not.toBe("");
    expect(problems.byCode("limit_reached")).toBe("");
  },
);
