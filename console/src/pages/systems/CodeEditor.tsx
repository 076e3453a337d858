import { type KeyboardEvent, type Ref, useImperativeHandle, useRef } from "react";
import { classes } from "../../parts/classes";
import { startOf } from "./lines";

const LINE = 1.375;

export interface GoesTo {
  goTo(line: number): void;
}

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** Lines with errors. */
  marked: ReadonlySet<number>;
  onSave: () => void;
  ref?: Ref<GoesTo>;
}

/** A plain text area with line numbers, accessible to every keyboard and screen reader. */
export function CodeEditor({ label, value, onChange, marked, onSave, ref }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const count = value.split("\n").length;
  useImperativeHandle(ref, () => ({
    goTo(line) {
      const at = startOf(value, line);
      area.current?.focus();
      area.current?.setSelectionRange(at, at);
      const size = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) * LINE;
      area.current?.scrollTo({ top: Math.max(0, (line - 4) * size) });
    },
  }));
  const save = (event: KeyboardEvent) => {
    if (event.key !== "s" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    onSave();
  };
  return (
    <div className="flex h-[min(34rem,60dvh)] font-mono text-[0.8125rem] leading-[1.375rem]">
      <div
        ref={gutter}
        aria-hidden
        className="shrink-0 overflow-hidden bg-sunken py-3 text-right text-muted select-none"
      >
        {Array.from({ length: count }, (_, index) => index + 1).map((line) => (
          <div key={line} className={classes("px-3 tabular-nums", marked.has(line) && "bg-bad font-bold text-surface")}>
            {line}
          </div>
        ))}
      </div>
      <textarea
        ref={area}
        aria-label={label}
        value={value}
        spellCheck={false}
        autoCapitalize="off"
        autoCorrect="off"
        wrap="off"
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={save}
        onScroll={(event) => gutter.current?.scrollTo({ top: event.currentTarget.scrollTop })}
        className="min-w-0 flex-1 resize-none overflow-auto bg-surface px-4 py-3 whitespace-pre -outline-offset-2"
      />
    </div>
  );
}
