const STEPS: readonly [seconds: number, unit: Intl.RelativeTimeFormatUnit][] = [
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
];

/** "3 minutes ago", or "3 min. ago" in the short style, in the given language; both times in seconds. */
export function ago(then: number, now: number, language: string, style: "long" | "short" = "long"): string {
  const gone = Math.max(0, now - then);
  const words = new Intl.RelativeTimeFormat(language, { numeric: "auto", style });
  for (const [size, unit] of STEPS) if (gone >= size) return words.format(-Math.floor(gone / size), unit);
  return words.format(0, "second");
}

/** Date and time; seconds since 1970. */
export function moment(then: number, language: string): string {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" }).format(then * 1000);
}

/** Time of day; seconds since 1970. */
export function clock(then: number, language: string): string {
  return new Intl.DateTimeFormat(language, { timeStyle: "medium" }).format(then * 1000);
}
