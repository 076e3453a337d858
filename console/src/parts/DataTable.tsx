import { useMemo, useState } from "react";
import { useTexts } from "../texts";
import { classes } from "./classes";
import { csvOf, textOfCell } from "./csv";
import { save } from "./files";
import { Icon } from "./Icon";
import { nextOrder, type Order, sorted } from "./sort";

const PAGE = 100;
/** Short values stay on one line; the table may scroll sideways. */
const TEXT = "w-max max-w-80 break-words";

interface Props {
  label: string;
  columns: readonly (string | { readonly name: string; readonly type?: string })[];
  rows: readonly (readonly unknown[])[];
  /** The number of rows before they were cut. */
  total?: number | undefined;
}

/** A table that sorts by any column and exports CSV. */
export function DataTable({ label, columns, rows, total }: Props) {
  const { parts, language } = useTexts();
  const [order, setOrder] = useState<Order | null>(null);
  const [shown, setShown] = useState(PAGE);
  const names = columns.map((column) => (typeof column === "string" ? column : column.name));
  const all = useMemo(() => sorted(rows, order, language), [rows, order, language]);
  const left = all.length - shown;
  const download = () => save(new Blob(["\ufeff", csvOf(names, all)], { type: "text/csv" }), `${label}.csv`);
  return (
    <div className="overflow-hidden rounded-lg border border-line">
      <div className="flex items-center justify-between gap-2 border-b border-line py-1 pr-1.5 pl-3 text-xs text-muted">
        <span>
          {total !== undefined && total > rows.length ? parts.rowsOf(rows.length, total) : parts.rows(rows.length)}
        </span>
        <button
          type="button"
          aria-label={parts.download("CSV")}
          onClick={download}
          className="flex items-center gap-1.5 rounded-md px-2 py-1 font-medium hover:bg-hover hover:text-ink"
        >
          <Icon name="download" size={15} /> CSV
        </button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard */}
      <section aria-label={label} tabIndex={0} className="max-h-96 overflow-auto -outline-offset-2">
        <table className="w-full border-collapse text-sm">
          <thead className="sticky top-0 bg-surface">
            <tr className="border-b border-line text-left text-xs">
              {names.map((name, column) => (
                <Heading
                  // biome-ignore lint/suspicious/noArrayIndexKey: two columns may have the same name
                  key={column}
                  name={name}
                  numeric={typeof rows[0]?.[column] === "number"}
                  order={order?.column === column ? order : null}
                  onClick={() => setOrder(nextOrder(order, column))}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            {all.slice(0, shown).map((row, place) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: rows have no state
              <tr key={place} className="border-b border-line last:border-0 hover:bg-hover">
                {names.map((_, column) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: as above
                  <Cell key={column} value={row[column]} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        {left > 0 && (
          <button type="button" className="px-3 py-2 text-sm text-accent underline" onClick={() => setShown(shown * 2)}>
            {parts.showMore(left)}
          </button>
        )}
      </section>
    </div>
  );
}

interface HeadingProps {
  name: string;
  numeric: boolean;
  order: Order | null;
  onClick: () => void;
}

function Heading({ name, numeric, order, onClick }: HeadingProps) {
  const direction = order === null ? "none" : order.falling ? "descending" : "ascending";
  return (
    <th scope="col" aria-sort={direction} className="p-0 font-medium">
      <button
        type="button"
        onClick={onClick}
        className={classes(
          "flex w-full items-center gap-1 px-3 py-1.5 text-muted -outline-offset-2 hover:text-ink",
          numeric && "flex-row-reverse",
        )}
      >
        <span className={TEXT}>{name}</span>
        <span
          className={classes("transition-transform", order?.falling && "rotate-180", order === null && "invisible")}
        >
          <Icon name="sorted" size={13} />
        </span>
      </button>
    </th>
  );
}

/** As received: years and order numbers get no digit grouping. */
function Cell({ value }: { value: unknown }) {
  const numeric = typeof value === "number";
  return (
    <td className={classes("px-3 py-1.5 align-top", numeric && "text-right tabular-nums")}>
      <div dir="auto" className={classes(TEXT, numeric && "ml-auto")}>
        {textOfCell(value)}
      </div>
    </td>
  );
}
