const LONGEST = 100_000;
/** Nested lists and quotes, inline or by indentation. */
const DEEP = /^(?:[ \t]*(?:>|[-*+][ \t]|\d{1,9}[.)][ \t])){16}|^(?: {2}|\t){32}/m;
/** Delimiters that may start a nested emphasis. */
const OPENING = /(?<!\w)_+(?=[^\s_])|[*~]+(?=[^\s*~])/g;
const MOST = 1_000;

/** Whether this text would block the Markdown parser: a few crafted kilobytes take it minutes. */
export function isSlowMarkdown(text: string): boolean {
  return text.length > LONGEST || DEEP.test(text) || text.split(/\n[ \t]*\n/).some((part) => opening(part) > MOST);
}

function opening(paragraph: string): number {
  return (paragraph.match(OPENING) ?? []).reduce((sum, { length }) => sum + length, 0);
}
