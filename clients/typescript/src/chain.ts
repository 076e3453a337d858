const BLOCK = 256;

/** A persistent append-only list: `with` returns a new list that shares every full block with this one. */
export class Chain<Item> implements Iterable<Item> {
  static empty<Item>(): Chain<Item> {
    return new Chain<Item>([], []);
  }

  private constructor(
    private readonly full: readonly (readonly Item[])[],
    private readonly last: readonly Item[],
  ) {}

  get length(): number {
    return this.full.length * BLOCK + this.last.length;
  }

  at(index: number): Item | undefined {
    const block = Math.floor(index / BLOCK);
    return (block === this.full.length ? this.last : this.full[block])?.[index % BLOCK];
  }

  with(item: Item): Chain<Item> {
    const last = [...this.last, item];
    return last.length === BLOCK ? new Chain([...this.full, last], []) : new Chain(this.full, last);
  }

  *[Symbol.iterator](): Generator<Item, void, undefined> {
    for (const block of this.full) yield* block;
    yield* this.last;
  }
}
