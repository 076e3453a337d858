const WIDTH = 64;

type Leaf<Value> = ReadonlyMap<string, Value>;
type Branch<Value> = readonly (Leaf<Value> | undefined)[];

/** A persistent map: `with` returns a new map that shares all but a few dozen slots with this one. */
export class Dict<Value> {
  static empty<Value>(): Dict<Value> {
    return new Dict<Value>([], 0);
  }

  private constructor(
    private readonly branches: readonly (Branch<Value> | undefined)[],
    readonly size: number,
  ) {}

  get(key: string): Value | undefined {
    const [outer, inner] = slots(key);
    return this.branches[outer]?.[inner]?.get(key);
  }

  has(key: string): boolean {
    const [outer, inner] = slots(key);
    return this.branches[outer]?.[inner]?.has(key) ?? false;
  }

  with(key: string, value: Value): Dict<Value> {
    const [outer, inner] = slots(key);
    const before = this.branches[outer]?.[inner];
    const leaf = new Map(before);
    leaf.set(key, value);
    const branches = filled(this.branches);
    const branch = filled(branches[outer] ?? []);
    branch[inner] = leaf;
    branches[outer] = branch;
    return new Dict(branches, before?.has(key) ? this.size : this.size + 1);
  }

  /** In no particular order. */
  *values(): Generator<Value, void, undefined> {
    for (const branch of this.branches) for (const leaf of branch ?? []) if (leaf) yield* leaf.values();
  }
}

function filled<Slot>(slots: readonly (Slot | undefined)[]): (Slot | undefined)[] {
  return slots.length === 0 ? new Array<Slot | undefined>(WIDTH).fill(undefined) : slots.slice();
}

/** FNV-1a of the key; twelve bits of it select the slot. */
function slots(key: string): [number, number] {
  let hash = 0x811c9dc5;
  for (let index = 0; index < key.length; index++) hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193);
  return [(hash >>> 6) % WIDTH, (hash ^ (hash >>> 16)) & (WIDTH - 1)];
}
