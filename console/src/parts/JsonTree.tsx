import { useState } from "react";
import { useTexts } from "../texts";
import { Exact } from "./Exact";
import { brief, type Entry, entriesOf } from "./json";

const PAGE = 100;

interface Props {
  value: unknown;
  name?: string;
  /** How many levels are expanded at first; if all, long lists are shown in full too. */
  depth?: number;
}

/** A collapsible JSON value. Collapsed parts are not rendered, so a large value costs nothing. */
export function JsonTree({ value, name, depth = 1 }: Props) {
  const entries = entriesOf(value);
  if (entries === null) return <Leaf value={value} name={name} />;
  return <Branch value={value} name={name} depth={depth} entries={entries} />;
}

function Branch({ value, name, depth = 1, entries }: Props & { entries: Entry[] }) {
  const [open, setOpen] = useState(depth > 0);
  const [shown, setShown] = useState(Number.isFinite(depth) ? PAGE : depth);
  const { parts } = useTexts();
  return (
    <details
      open={open}
      onToggle={(event) => setOpen(event.currentTarget.open)}
      className="font-mono text-[0.8125rem] break-words"
    >
      <summary className="rounded py-0.5 pl-0.5 marker:text-muted hover:bg-hover">
        {name !== undefined && <Name name={name} />}
        <span className="text-muted">
          <Exact text={brief(value)} />
        </span>
      </summary>
      {open && (
        <div className="ml-1.5 border-l border-line pl-4">
          {entries.slice(0, shown).map(([key, inner]) => (
            <JsonTree key={key} value={inner} name={key} depth={depth - 1} />
          ))}
          {entries.length > shown && (
            <button type="button" className="py-0.5 text-accent underline" onClick={() => setShown(shown + PAGE)}>
              {parts.showMore(entries.length - shown)}
            </button>
          )}
        </div>
      )}
    </details>
  );
}

function Leaf({ value, name }: { value: unknown; name?: string | undefined }) {
  return (
    <div className="py-0.5 pl-4 font-mono text-[0.8125rem] break-words whitespace-pre-wrap">
      {name !== undefined && <Name name={name} />}
      <span className={typeof value === "string" ? "text-good" : "text-accent-strong"}>
        <Exact text={brief(value)} />
      </span>
    </div>
  );
}

const Name = ({ name }: { name: string }) => (
  <span className="text-ink">
    <Exact text={name} />:{" "}
  </span>
);
