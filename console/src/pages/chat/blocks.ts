const FENCE = /^ {0,3}(`{3,}|~{3,})/;
/** The next item of a list, also when only its beginning is written. */
const POINT = /^([-*+](\s|$)|\d+([.)](\s|$)|$))/;

/**
 * Splits Markdown at blank lines into independent blocks, but not inside code or lists. While a text
 * streams, only the last block changes and has to be parsed again.
 */
export function blocksOf(text: string): readonly string[] {
  const blocks: string[] = [];
  let block: string[] = [];
  let fence: string | null = null;
  let isBlank = false;
  for (const line of text.split("\n")) {
    if (fence === null && isBlank && !/^(\s|$)/.test(line) && !(POINT.test(block[0] ?? "") && POINT.test(line))) {
      blocks.push(block.join("\n"));
      block = [];
    }
    const mark = FENCE.exec(line)?.[1];
    if (mark && fence === null) fence = mark;
    else if (mark && fence !== null && mark.startsWith(fence) && line.trim() === mark) fence = null;
    block.push(line);
    isBlank = line.trim() === "" ? block.length > 1 || blocks.length > 0 : false;
  }
  return [...blocks, block.join("\n")].filter((piece) => piece.trim() !== "");
}
