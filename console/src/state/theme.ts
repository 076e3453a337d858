import { stored, useStored } from "./stored";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const kept = stored("theme", () => localStorage);

function themeOf(text: string | null): Theme {
  return THEMES.find((theme) => theme === text) ?? "system";
}

/** The tokens in theme.css do the rest: without the attribute, they follow the system. */
export function showTheme(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function chooseTheme(theme: Theme): void {
  kept.set(theme === "system" ? null : theme);
  showTheme(theme);
}

export const storedTheme = (): Theme => themeOf(kept.get());
export const useTheme = (): Theme => themeOf(useStored(kept));
