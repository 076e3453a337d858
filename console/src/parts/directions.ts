import type { Root } from "mdast";

const WRITTEN = new Set(["paragraph", "heading", "list", "blockquote", "table"]);

/** Each part of a text gets the direction of its language; code has none. */
export function directions(): (root: Root) => void {
  return (root) => {
    for (const node of root.children)
      if (WRITTEN.has(node.type)) node.data = { ...node.data, hProperties: { dir: "auto" } };
  };
}
