type Node = Readonly<Record<string, unknown>> | readonly unknown[];
/** Untrusted: any field may be missing or of another type. */
type Operation = { readonly op?: unknown; readonly path?: unknown; readonly value?: unknown };

/** Applies an RFC 6902 patch (add, remove and replace, the only operations in the log). Invalid operations are skipped. */
export function patched(state: unknown, patch: readonly unknown[]): unknown {
  return patch.reduce((value, operation) => {
    try {
      return after(value, nodeOf(operation) as Operation);
    } catch (error) {
      if (error instanceof PatchError) return value;
      throw error;
    }
  }, state ?? {});
}

class PatchError extends Error {}

function after(state: unknown, { op, path, value = null }: Operation): unknown {
  if (typeof path !== "string") throw new PatchError();
  const keys = path
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (op === "add") return put(state, keys, value);
  if (op === "remove") return without(state, keys);
  if (op === "replace") return replaced(state, keys, value);
  throw new PatchError();
}

function put(node: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const inside = nodeOf(node);
  if (isList(inside) && rest.length === 0) return inside.toSpliced(placeIn(inside, key, inside.length), 0, value);
  return rest.length === 0 ? { ...inside, [key]: value } : changed(inside, key, (inner) => put(inner, rest, value));
}

/** Replaces a value and keeps the order of the keys. */
function replaced(node: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  return key === undefined ? value : changed(nodeOf(node), key, (inner) => replaced(inner, rest, value));
}

function without(node: unknown, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined) return null;
  const inside = nodeOf(node);
  if (rest.length > 0) return changed(inside, key, (inner) => without(inner, rest));
  if (isList(inside)) return inside.toSpliced(placeIn(inside, key, inside.length - 1), 1);
  if (!Object.hasOwn(inside, key)) throw new PatchError();
  const { [key]: _, ...others } = inside;
  return others;
}

/** A copy with one existing key changed. */
function changed(inside: Node, key: string, change: (inner: unknown) => unknown): Node {
  if (isList(inside)) {
    const index = placeIn(inside, key, inside.length - 1);
    return inside.with(index, change(inside[index]));
  }
  if (!Object.hasOwn(inside, key)) throw new PatchError();
  return { ...inside, [key]: change(inside[key]) };
}

function placeIn(items: readonly unknown[], key: string, last: number): number {
  const index = key === "-" ? items.length : /^\d+$/.test(key) ? Number(key) : -1;
  if (index < 0 || index > last) throw new PatchError();
  return index;
}

function nodeOf(node: unknown): Node {
  if (typeof node !== "object" || node === null) throw new PatchError();
  return node as Node;
}

function isList(node: Node): node is readonly unknown[] {
  return Array.isArray(node);
}
