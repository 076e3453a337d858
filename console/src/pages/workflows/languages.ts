/** Languages that a workplan answers in, and how one asks for each, in its own words. */
export const ANSWERS = {
  en: { name: "English", wish: "Please answer in English." },
  de: { name: "Deutsch", wish: "Bitte antworte auf Deutsch." },
  fr: { name: "Français", wish: "Réponds en français, s'il te plaît." },
  it: { name: "Italiano", wish: "Rispondi in italiano, per favore." },
} as const;

export type Answer = keyof typeof ANSWERS | "";

/** The server finds out the language from the wish; so whoever wants another one says so in it. */
export function inLanguage(wish: string, language: Answer): string {
  return language ? `${wish.trim()}\n\n${ANSWERS[language].wish}` : wish.trim();
}
