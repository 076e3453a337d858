const QUOTED = /[",;\r\n]/;
/** What a spreadsheet takes for a formula, also in the wide forms of East Asian keyboards. */
const FORMULA = /^[\s\0]*[=+\-@＝＋－＠]|^[\t\r\n]/;
const NUMBER = /^[-+]?\d+([.,]\d+)*(e[-+]?\d+)?%?$/i;

/** A table as RFC 4180 tells it, which no spreadsheet runs: a text that looks like a formula has an apostrophe before it. */
export function csvOf(names: readonly string[], rows: readonly (readonly unknown[])[]): string {
  return [names, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

/** One value in one line: what has an inside as JSON, nothing as nothing. */
export function textOfCell(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function field(value: unknown): string {
  const text = textOfCell(value);
  const safe = typeof value === "string" && FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return QUOTED.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
