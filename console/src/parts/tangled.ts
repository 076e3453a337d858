const LONGEST = 100_000;
/** Lists and quotations inside each other, in a line or by indentation. */
const DEEP = /^(?:[ \t]*(?:>|[-*+][ \t]|\d{1,9}[.)][ \t])){16}|^(?: {2}|\t){32}/m;
/** What may begin an emphasis, which may be inside another one. */
const OPENING = /(?<!\w)_+(?=[^\s_])|[*~]+(?=[^\s*~])/g;
const MOST = 1_000;

/** Whether the parser of Markdown would hold up the page: a few kilobytes, well chosen, take it minutes. */
export function isTangled(text: string): boolean {
  return text.length > LONGEST || DEEP.test(text) || text.split(/\n[ \t]*\n/).some((part) => opening(part) > MOST);
}

function opening(paragraph: string): number {
  return (paragraph.match(OPENING) ?? []).reduce((sum, { length }) => sum + length, 0);
}
