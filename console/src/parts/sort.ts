import { textOfCell } from "./csv";

export interface Order {
  readonly column: number;
  readonly falling: boolean;
}

/** The order after a click on a column: ascending, descending, unsorted. */
export function nextOrder(order: Order | null, column: number): Order | null {
  if (order?.column !== column) return { column, falling: false };
  return order.falling ? null : { column, falling: true };
}

/** Sorts rows by one column. Stable; empty values come last in both directions. */
export function sorted<Row extends readonly unknown[]>(
  rows: readonly Row[],
  order: Order | null,
  language: string,
): readonly Row[] {
  if (order === null) return rows;
  const { compare } = new Intl.Collator(language, { numeric: true, sensitivity: "base" });
  const { column, falling } = order;
  return rows.toSorted((left, right) => {
    const [a, b] = [left[column], right[column]];
    if (isNothing(a) || isNothing(b)) return Number(isNothing(a)) - Number(isNothing(b));
    const rising = typeof a === "number" && typeof b === "number" ? a - b : compare(textOfCell(a), textOfCell(b));
    return falling ? -rising : rising;
  });
}

const isNothing = (value: unknown): boolean => value === null || value === undefined || value === "";
