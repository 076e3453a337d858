/** A duration: "40 ms", "1.4 s", "2 min 5 s". */
export function duration(seconds: number, language: string): string {
  if (seconds < 0.9995) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 59.95) return `${number(seconds, language, 1)} s`;
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

/** A file size: "812 B", then kB, MB and GB. */
export function bytes(size: number, language: string): string {
  if (size < 1000) return `${size} B`;
  if (size < 999_500) return `${number(size / 1000, language, size < 10_000 ? 1 : 0)} kB`;
  if (size < 999_500_000) return `${number(size / 1_000_000, language, 1)} MB`;
  return `${number(size / 1_000_000_000, language, 1)} GB`;
}

/** "62%", in the format of the language; the value is 0 to 100. */
export function percent(value: number, language: string): string {
  return (Math.round(value) / 100).toLocaleString(language, { style: "percent" });
}

export function number(value: number, language: string, places = 0): string {
  return value.toLocaleString(language, { maximumFractionDigits: places });
}

/** The decimal separator of all these languages; null if they differ. */
export function fractionMark(languages: readonly string[]): string | null {
  const marks = languages.map((one) => (1.5).toLocaleString(one, { numberingSystem: "latn" }).charAt(1));
  return marks.every((mark) => mark === marks[0]) ? (marks[0] ?? null) : null;
}
