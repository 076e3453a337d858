import { Button } from "../parts/Button";
import { Icon, type IconName } from "../parts/Icon";
import { chooseTheme, THEMES, type Theme, useTheme } from "../state/theme";
import { chooseLanguage, LANGUAGES, type Language, useLanguage, useTexts } from "../texts";

const ICONS: Record<Theme, IconName> = { system: "screen", light: "sun", dark: "moon" };

function following<T>(all: readonly T[], one: T): T {
  return all[(all.indexOf(one) + 1) % all.length] ?? one;
}

/** Cycles through the values; the label shows the current one. */
export function ThemeSwitch() {
  const { shell } = useTexts();
  const theme = useTheme();
  const label = `${shell.theme}: ${shell.themes[theme]}`;
  return (
    <Button look="quiet" square aria-label={label} title={label} onClick={() => chooseTheme(following(THEMES, theme))}>
      <Icon name={ICONS[theme]} />
    </Button>
  );
}

export function LanguageSwitch() {
  const { shell } = useTexts();
  const language = useLanguage();
  const all = Object.keys(LANGUAGES) as Language[];
  const label = `${shell.language}: ${shell.languages[language]}`;
  return (
    <Button look="quiet" square title={label} onClick={() => chooseLanguage(following(all, language))}>
      <span className="text-xs font-semibold">{language.toUpperCase()}</span>
      <span className="sr-only">{label}</span>
    </Button>
  );
}
