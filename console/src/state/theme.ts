import { stored, useStored } from "./stored";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const kept = stored("theme", () => localStorage);

function themeOf(text: string | null): Theme {
  return THEMES.find((theme) => theme === text) ?? "system";
}

/** Sets the attribute that theme.css reads; without it the tokens follow the system. */
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
