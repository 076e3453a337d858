import type { Tool } from "../../server/types";

/** Tools whose name, alias or description contains every word of the filter. */
export function matching(tools: readonly Tool[], filter: string): Tool[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return tools.filter(({ name, aliases, description }) => {
    const text = [name, ...aliases, description].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
