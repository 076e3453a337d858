import { useState } from "react";
import { useTexts } from "../texts";
import { classes } from "./classes";

const PIECE = 20_000;

/** Plain text, rendered in parts on request. */
export function LongText({ text, tone = "text-ink" }: { text: string; tone?: string }) {
  const { parts } = useTexts();
  const [shown, setShown] = useState(PIECE);
  return (
    <div>
      <pre dir="auto" className={classes("font-mono text-[0.8125rem] break-words whitespace-pre-wrap", tone)}>
        {text.slice(0, shown)}
      </pre>
      {text.length > shown && (
        <button type="button" className="py-1 text-sm text-accent underline" onClick={() => setShown(shown + PIECE)}>
          {parts.moreText(text.length - shown)}
        </button>
      )}
    </div>
  );
}
