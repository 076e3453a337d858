import { createContext, type ReactNode, useContext, useEffect } from "react";
import { stored, useStored } from "../state/stored";
import { de } from "./de";
import { en } from "./en";
import type { Texts } from "./types";

export const LANGUAGES = { en, de } satisfies Record<string, Texts>;
export type Language = keyof typeof LANGUAGES;

const kept = stored("language", () => localStorage);

/** The chosen language, else the browser's first supported one, else English. */
export function languageOf(chosen: string | null, spoken: readonly string[]): Language {
  const tags = [...(chosen ? [chosen] : []), ...spoken].map((tag) => tag.slice(0, 2).toLowerCase());
  return tags.find((tag): tag is Language => tag in LANGUAGES) ?? "en";
}

export const chooseLanguage = (language: Language): void => kept.set(language);
export const useLanguage = (): Language => languageOf(useStored(kept), navigator.languages);

const Current = createContext<Texts>(en);

/** All texts of the page: `const { systems } = useTexts()`. */
export const useTexts = (): Texts => useContext(Current);

export function TextsProvider({ children }: { children: ReactNode }) {
  const language = useLanguage();
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  return <Current value={LANGUAGES[language]}>{children}</Current>;
}
