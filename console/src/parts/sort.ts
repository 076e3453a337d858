import { textOfCell } from "./csv";

export interface Order {
  readonly column: number;
  readonly falling: boolean;
}

/** The order after a click on a column: rising, falling, as it came. */
export function nextOrder(order: Order | null, column: number): Order | null {
  if (order?.column !== column) return { column, falling: false };
  return order.falling ? null : { column, falling: true };
}

/** The rows by one column. Equal ones stay as they were; nothing stands at the end, whichever way. */
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
