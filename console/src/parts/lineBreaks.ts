import type { Nodes, Root } from "mdast";

const BREAK = /^<br ?\/?>$/i;

/** Allows `<br>`, the only way to break a line in a table; all other HTML stays text. */
export function lineBreaks(): (root: Root) => void {
  return (root) => walk(root, false);
}

function walk(node: Nodes, inCell: boolean): void {
  if (!("children" in node)) return;
  const isCell = inCell || node.type === "tableCell";
  node.children.forEach((child, index) => {
    if (isCell && child.type === "html" && BREAK.test(child.value)) node.children[index] = { type: "break" };
    else walk(child, isCell);
  });
}
