import type { Root } from "mdast";

const WRITTEN = new Set(["paragraph", "heading", "list", "blockquote", "table"]);

/** Each part of a text begins at the side at which its language begins; code has no language. */
export function directions(): (root: Root) => void {
  return (root) => {
    for (const node of root.children)
      if (WRITTEN.has(node.type)) node.data = { ...node.data, hProperties: { dir: "auto" } };
  };
}
