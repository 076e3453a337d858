/** How long something took: "40 ms", "1.4 s", "2 min 5 s". */
export function duration(seconds: number, language: string): string {
  if (seconds < 0.9995) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 59.95) return `${number(seconds, language, 1)} s`;
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

/** How large a file is: "812 bytes" is "812 B", then kB, MB and GB. */
export function bytes(size: number, language: string): string {
  if (size < 1000) return `${size} B`;
  if (size < 999_500) return `${number(size / 1000, language, size < 10_000 ? 1 : 0)} kB`;
  if (size < 999_500_000) return `${number(size / 1_000_000, language, 1)} MB`;
  return `${number(size / 1_000_000_000, language, 1)} GB`;
}

/** "62%", as the language writes it; of a number from 0 to 100. */
export function percent(value: number, language: string): string {
  return (Math.round(value) / 100).toLocaleString(language, { style: "percent" });
}

export function number(value: number, language: string, places = 0): string {
  return value.toLocaleString(language, { maximumFractionDigits: places });
}

/** What stands in front of a fraction in all of these languages; null if they do not agree. */
export function fractionMark(languages: readonly string[]): string | null {
  const marks = languages.map((one) => (1.5).toLocaleString(one, { numberingSystem: "latn" }).charAt(1));
  return marks.every((mark) => mark === marks[0]) ? (marks[0] ?? null) : null;
}
