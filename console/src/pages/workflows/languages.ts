/** Languages that a workplan can answer in, with the sentence that requests each. */
export const ANSWERS = {
  en: { name: "English", request: "Please answer in English." },
  de: { name: "Deutsch", request: "Bitte antworte auf Deutsch." },
  fr: { name: "Français", request: "Réponds en français, s'il te plaît." },
  it: { name: "Italiano", request: "Rispondi in italiano, per favore." },
} as const;

export type Answer = keyof typeof ANSWERS | "";

/** The server detects the language of the request, so another language is requested in its text. */
export function inLanguage(request: string, language: Answer): string {
  return language ? `${request.trim()}\n\n${ANSWERS[language].request}` : request.trim();
}
