// @vitest-environment happy-dom
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Markdown } from "./Markdown";

const shown = (text: string) =>
  new DOMParser().parseFromString(renderToStaticMarkup(<Markdown text={text} />), "text/html");
const codes = (text: string) => [...shown(text).querySelectorAll("code")].map((code) => code.textContent);
const blocks = (text: string) => [...shown(text).querySelectorAll("pre")].map((pre) => pre.textContent?.trimEnd());

test.each([
  "\\(x_1 \\cdot y_1\\)",
  "\\[a *b* c\\\\ d\\]",
  "$$\\sum_{i=1}^n x_i$$",
  "\\(\\left\\{ a \\\\ b \\right\\}\\)",
])("an inline formula is shown as it was written: %s", (formula) => {
  expect(codes(`Because ${formula} is so, **all** is well.`)).toEqual([formula]);
  expect(codes(`| a |\n|---|\n| so ${formula} |`)).toEqual([formula]);
});

test.each(["\\[\nx = \\frac{a}{b}\n- c\n\\]", "$$\na_1\n= b_1\n$$", "\\[ x \\]", "$$x$$", "\\[ a\\\\[2pt] b\n+ c \\]"])(
  "a formula in lines of its own is a block: %s",
  (formula) => {
    expect(blocks(formula)).toEqual([formula]);
    expect(blocks(`So\n${formula}\nis *true*.`)).toEqual([formula]);
    expect(shown(`So\n${formula}\nis *true*.`).querySelector("em")?.textContent).toBe("true");
    expect(blocks(`- so\n\n  ${formula.replaceAll("\n", "\n  ")}\n- b`)).toEqual([formula]);
  },
);

test("a block formula starts at its delimiter and ends with its paragraph at the latest", () => {
  expect(blocks("\\[\nx = \\frac{a")).toEqual(["\\[\nx = \\frac{a"]);
  expect(blocks("$$\nx")).toEqual(["$$\nx"]);
  expect(blocks("\\[\nx\n\nand *then*")).toEqual(["\\[\nx"]);
  expect(blocks("> \\[\n> x\nlazy")).toEqual(["\\[\nx"]);
});

test.each(["It costs $5 and $10, or $$$.", "$$ is cheap, and $$$ is not", "a $ b $ c", "f() and (x) and [y]"])(
  "money and brackets stay what they are: %s",
  (text) => {
    expect(codes(text)).toEqual([]);
    expect(shown(text).body.textContent?.trim()).toBe(text);
  },
);

test("code stays code, an escaped delimiter is text, and an unclosed formula is none", () => {
  expect(codes("so \\(a\n= b\\)")).toEqual(["\\(a = b\\)"]);
  expect(codes("`\\(x\\)`")).toEqual(["\\(x\\)"]);
  expect(blocks("```sh\n[ \\( a \\) ]\n\\[\n```")).toEqual(["[ \\( a \\) ]\n\\["]);
  expect(codes("\\\\(x\\\\) and \\$$x$$ and \\(\\) and \\(a and \\[1\\](b)")).toEqual(["\\[1\\]"]);
});

test("in a table <br> breaks a line, and all other HTML is text", () => {
  const cell = shown(
    "| a |\n|---|\n| one<br>two<BR/>**three<br />four** <b>x</b> `<br>` <br onclick=x> |",
  ).querySelector("td");
  expect(cell?.querySelectorAll("br")).toHaveLength(3);
  expect(cell?.querySelectorAll("b, [onclick]")).toHaveLength(0);
  expect(cell?.textContent).toContain("<b>x</b> <br> <br onclick=x>");
  expect(shown("one<br>two").querySelectorAll("br")).toHaveLength(0);
});
