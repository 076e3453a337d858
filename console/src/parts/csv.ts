const QUOTED = /[",;\r\n]/;
/** Characters that start a formula in a spreadsheet, including full-width forms. */
const FORMULA = /^[\s\0]*[=+\-@＝＋－＠]|^[\t\r\n]/;
const NUMBER = /^[-+]?\d+([.,]\d+)*(e[-+]?\d+)?%?$/i;

/** A table as CSV (RFC 4180). Texts that look like a formula get an apostrophe, so that no spreadsheet runs them. */
export function csvOf(names: readonly string[], rows: readonly (readonly unknown[])[]): string {
  return [names, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

/** A value in one line: objects and lists as JSON, null as an empty text. */
export function textOfCell(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function field(value: unknown): string {
  const text = textOfCell(value);
  const safe = typeof value === "string" && FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return QUOTED.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
