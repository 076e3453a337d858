type Node = Readonly<Record<string, unknown>> | readonly unknown[];

/** A state after a patch of RFC 6902: add, remove and replace, which are all that the log has. A misfit is left out. */
export function patched(state: unknown, patch: readonly unknown[]): unknown {
  return patch.reduce((value, operation) => {
    try {
      return after(value, operation as { op: string; path: string; value?: unknown });
    } catch (error) {
      if (error instanceof Misfit) return value;
      throw error;
    }
  }, state ?? {});
}

class Misfit extends Error {}

function after(state: unknown, { op, path, value }: { op: string; path: string; value?: unknown }): unknown {
  if (typeof path !== "string") throw new Misfit();
  const keys = path
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (op === "add") return put(state, keys, value);
  if (op === "remove") return without(state, keys);
  if (op === "replace") return put(without(state, keys), keys, value);
  throw new Misfit();
}

function put(node: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const inside = nodeOf(node);
  if (isList(inside)) {
    const index = placeIn(inside, key, rest.length === 0 ? inside.length : inside.length - 1);
    return rest.length === 0 ? inside.toSpliced(index, 0, value) : inside.with(index, put(inside[index], rest, value));
  }
  if (rest.length > 0 && !Object.hasOwn(inside, key)) throw new Misfit();
  return { ...inside, [key]: put(inside[key], rest, value) };
}

function without(node: unknown, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined) return null;
  const inside = nodeOf(node);
  if (isList(inside)) {
    const index = placeIn(inside, key, inside.length - 1);
    return rest.length === 0 ? inside.toSpliced(index, 1) : inside.with(index, without(inside[index], rest));
  }
  if (!Object.hasOwn(inside, key)) throw new Misfit();
  const { [key]: inner, ...others } = inside;
  return rest.length === 0 ? others : { ...inside, [key]: without(inner, rest) };
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
