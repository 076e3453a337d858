import { Exact } from "./Exact";
import { JsonTree } from "./JsonTree";
import { type Entry, entriesOf } from "./json";
import { Markdown } from "./Markdown";

/** Texts that are longer, or have several lines, are read as Markdown. */
const LONG = 80;

/** A structured result, to be read: its keys with their values, texts as texts, the rest as trees. */
export function StructuredView({ value }: { value: unknown }) {
  const entries = Array.isArray(value) ? null : entriesOf(value);
  if (entries === null)
    return (
      <div className="overflow-x-auto rounded-lg bg-sunken px-3 py-2">
        <JsonTree value={value} depth={2} />
      </div>
    );
  return (
    <dl className="divide-y divide-line overflow-hidden rounded-lg border border-line bg-surface">
      {entries.map((entry) => (
        <Row key={entry[0]} entry={entry} />
      ))}
    </dl>
  );
}

function Row({ entry: [name, value] }: { entry: Entry }) {
  return (
    <div className="gap-4 px-4 py-2.5 sm:flex">
      <dt className="shrink-0 text-sm break-words text-muted sm:w-40">
        <Exact text={name} />
      </dt>
      <dd className="min-w-0 flex-1 break-words">
        <Value value={value} />
      </dd>
    </div>
  );
}

function Value({ value }: { value: unknown }) {
  if (typeof value === "string")
    return value.length > LONG || value.includes("\n") ? <Markdown text={value} /> : <Exact text={value} />;
  if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "string"))
    return (
      <ul className="list-disc space-y-1 pl-5">
        {value.map((one, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: equal texts differ only in their index
          <li key={index}>
            <Exact text={one} />
          </li>
        ))}
      </ul>
    );
  if (entriesOf(value) === null) return value === null ? "–" : String(JSON.stringify(value));
  return <JsonTree value={value} depth={2} />;
}
