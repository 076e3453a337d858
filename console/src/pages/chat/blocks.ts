const FENCE = /^ {0,3}(`{3,}|~{3,})/;
/** The next point of a list, also when only its beginning is written. */
const POINT = /^([-*+](\s|$)|\d+([.)](\s|$)|$))/;

/**
 * Pieces of Markdown that mean the same alone: cut at blank lines, but not inside of code and lists. While a text is
 * written only the last piece changes, so only that has to be read anew.
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
