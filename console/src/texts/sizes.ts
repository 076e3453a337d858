const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte"];

/** "5.4 kB", in the given language. */
export function sizeOf(bytes: number, language: string): string {
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), UNITS.length - 1);
  const unit = UNITS[power];
  const look = power ? ({ maximumFractionDigits: 1 } as const) : ({ unitDisplay: "long" } as const);
  return new Intl.NumberFormat(language, { style: "unit", unit, ...look }).format(bytes / 1000 ** power);
}

/** "3.4s" or "2m", as the language writes it. */
export function timeOf(seconds: number, language: string): string {
  const [unit, amount, maximumFractionDigits] =
    seconds < 100 ? ["second", seconds, seconds < 10 ? 1 : 0] : ["minute", seconds / 60, 0];
  const look = { style: "unit", unit, unitDisplay: "narrow", maximumFractionDigits } as const;
  return new Intl.NumberFormat(language, look).format(amount);
}
