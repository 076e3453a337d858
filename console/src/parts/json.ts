export type Entry = [name: string, value: unknown];

/** The entries of an object or a list; null for other values. */
export function entriesOf(value: unknown): Entry[] | null {
  if (value === null || typeof value !== "object") return null;
  const entries: Entry[] = Object.entries(value);
  return entries.length ? entries : null;
}

/** A value in one line: lists and objects by their size. */
export function brief(value: unknown): string {
  if (Array.isArray(value)) return value.length ? `[${value.length}]` : "[]";
  if (value !== null && typeof value === "object") {
    const names = Object.keys(value);
    return names.length ? `{${names.slice(0, 3).join(", ")}${names.length > 3 ? ", …" : ""}}` : "{}";
  }
  return typeof value === "string" ? value : String(JSON.stringify(value));
}
