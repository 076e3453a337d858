type Node = Readonly<Record<string, unknown>> | readonly unknown[];
/** As far as whoever wrote it kept to the RFC. */
type Operation = { readonly op?: unknown; readonly path?: unknown; readonly value?: unknown };

/** A state after a patch of RFC 6902: add, remove and replace, which are all that the log has. A misfit is left out. */
export function patched(state: unknown, patch: readonly unknown[]): unknown {
  return patch.reduce((value, operation) => {
    try {
      return after(value, nodeOf(operation) as Operation);
    } catch (error) {
      if (error instanceof Misfit) return value;
      throw error;
    }
  }, state ?? {});
}

class Misfit extends Error {}

function after(state: unknown, { op, path, value = null }: Operation): unknown {
  if (typeof path !== "string") throw new Misfit();
  const keys = path
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (op === "add") return put(state, keys, value);
  if (op === "remove") return without(state, keys);
  if (op === "replace") return replaced(state, keys, value);
  throw new Misfit();
}

function put(node: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const inside = nodeOf(node);
  if (isList(inside) && rest.length === 0) return inside.toSpliced(placeIn(inside, key, inside.length), 0, value);
  return rest.length === 0 ? { ...inside, [key]: value } : changed(inside, key, (inner) => put(inner, rest, value));
}

/** Where it was: a reader's eye stays on what has changed. */
function replaced(node: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  return key === undefined ? value : changed(nodeOf(node), key, (inner) => replaced(inner, rest, value));
}

function without(node: unknown, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined) return null;
  const inside = nodeOf(node);
  if (rest.length > 0) return changed(inside, key, (inner) => without(inner, rest));
  if (isList(inside)) return inside.toSpliced(placeIn(inside, key, inside.length - 1), 1);
  if (!Object.hasOwn(inside, key)) throw new Misfit();
  const { [key]: _, ...others } = inside;
  return others;
}

/** With something else in one place, which must be there. */
function changed(inside: Node, key: string, change: (inner: unknown) => unknown): Node {
  if (isList(inside)) {
    const index = placeIn(inside, key, inside.length - 1);
    return inside.with(index, change(inside[index]));
  }
  if (!Object.hasOwn(inside, key)) throw new Misfit();
  return { ...inside, [key]: change(inside[key]) };
}

function placeIn(items: readonly unknown[], key: string, last: number): number {
  const index = key === "-" ? items.length : /^\d+$/.test(key) ? Number(key) : -1;
  if (index < 0 || index > last) throw new Misfit();
  return index;
}

function nodeOf(node: unknown): Node {
  if (typeof node !== "object" || node === null) throw new Misfit();
  return node as Node;
}

function isList(node: Node): node is readonly unknown[] {
  return Array.isArray(node);
}
