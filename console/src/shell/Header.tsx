import { Link } from "@tanstack/react-router";
import icon from "../assets/icon.svg";
import { Button } from "../parts/Button";
import { Icon } from "../parts/Icon";
import { askForKey, useHasKey, useKeyWanted } from "../server/key";
import { useTexts } from "../texts";
import { TopNavigation } from "./Navigation";
import { LanguageSwitch, ThemeSwitch } from "./Switches";

export function Header({ onSessions, onHelp }: { onSessions: () => void; onHelp: () => void }) {
  const { shell } = useTexts();
  const keyWanted = useKeyWanted() !== null;
  const hasKey = useHasKey();
  return (
    <header className="flex h-14 shrink-0 items-center gap-3 border-b border-line bg-surface px-3 sm:px-5 lg:gap-6 low:h-11">
      <Button look="quiet" square className="lg:hidden" aria-label={shell.openSessions} onClick={onSessions}>
        <Icon name="menu" />
      </Button>
      <Link to="/" className="flex items-center gap-2.5 rounded-md font-semibold tracking-tight">
        <img src={icon} alt="" width={24} height={24} />
        Stellwerk
      </Link>
      <TopNavigation />
      <div className="ml-auto flex items-center gap-1">
        <Button look="quiet" square className="max-md:hidden" title={shell.shortcuts} onClick={onHelp}>
          <kbd className="font-sans">?</kbd>
          <span className="sr-only">{shell.shortcuts}</span>
        </Button>
        {(keyWanted || hasKey) && (
          <Button look="quiet" square aria-label={shell.keyLabel} title={shell.keyLabel} onClick={askForKey}>
            <Icon name="key" />
          </Button>
        )}
        <LanguageSwitch />
        <ThemeSwitch />
      </div>
    </header>
  );
}
