import type { ReactNode } from "react";
import { useTexts } from "../texts";
import { useCopy } from "./copy";
import { Icon } from "./Icon";

interface Props {
  /** The language, as the author named it. */
  language: string | undefined;
  /** The text to copy. */
  text: string;
  children: ReactNode;
}

/** A code block: language, copy button and code, which scrolls by itself. */
export function CodeBlock({ language, text, children }: Props) {
  const { parts } = useTexts();
  const copy = useCopy();
  return (
    <div className="overflow-hidden rounded-lg border border-line bg-sunken">
      <div className="flex items-center justify-between gap-3 border-b border-line py-0.5 pr-1 pl-4 text-xs text-muted">
        <span className="truncate">{language ?? parts.code}</span>
        <button
          type="button"
          className="flex h-7 shrink-0 items-center gap-1.5 rounded-md px-2 font-medium hover:bg-hover hover:text-ink"
          onClick={() => void copy(text)}
        >
          <Icon name="copy" size={14} /> {parts.copyCode}
        </button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and what scrolls must be reached by the keyboard */}
      <pre tabIndex={0} className="-outline-offset-2">
        {children}
      </pre>
    </div>
  );
}
