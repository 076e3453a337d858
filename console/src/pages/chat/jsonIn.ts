/** The object or list that a text is, such as the result of a graph without messages; null for any other text. */
export function jsonIn(text: string): object | null {
  if (!/^\s*[[{]/.test(text) || !/[\]}]\s*$/.test(text)) return null;
  try {
    const value: unknown = JSON.parse(text);
    const isFilled = typeof value === "object" && value !== null && Object.keys(value).length > 0;
    return isFilled ? value : null;
  } catch {
    return null; // a text that only looks like JSON
  }
}
