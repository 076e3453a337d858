import { classes } from "../../parts/classes";
import { Choice, Field } from "../../parts/Field";
import { useTexts } from "../../texts";
import type { EventSearch } from "./filter";
import type { Shown } from "./store";

interface Props {
  shown: Shown;
  search: EventSearch;
  text: string;
  onWrite: (text: string) => void;
  onChange: (search: EventSearch) => void;
}

export function Filters({ shown, search, text, onWrite, onChange }: Props) {
  const { events: words } = useTexts();
  const agents = [...new Set([...shown.agents, ...(search.agent ? [search.agent] : [])])].sort();
  return (
    <search className="block space-y-2">
      <div className="flex flex-wrap gap-2 max-sm:[&>*]:flex-1">
        <Field
          type="search"
          label={words.text}
          labelHidden
          placeholder={words.text}
          value={text}
          onChange={(event) => onWrite(event.target.value)}
          className="min-w-full flex-1 sm:min-w-48"
        />
        <Choice
          label={words.agent}
          labelHidden
          value={search.agent ?? ""}
          options={[{ value: "", label: words.allAgents }, ...agents.map((id) => ({ value: id, label: id }))]}
          onChange={(agent) => onChange({ agent: agent || undefined })}
        />
        <Choice
          label={words.profile}
          labelHidden
          value={search.profile ?? "user"}
          options={[
            { value: "user", label: words.profiles.user },
            { value: "debug", label: words.profiles.debug },
          ]}
          onChange={(profile) => onChange({ profile: profile === "debug" ? "debug" : undefined })}
        />
      </div>
      <Types shown={shown} chosen={search.type} onChange={(type) => onChange({ type })} />
    </search>
  );
}

interface TypesProps {
  shown: Shown;
  chosen: string | undefined;
  onChange: (type: string | undefined) => void;
}

/** The types in the log with their counts; none selected means all. */
function Types({ shown, chosen, onChange }: TypesProps) {
  const { events: words } = useTexts();
  const wanted = new Set(chosen?.split(","));
  const known = [...new Set([...shown.types.keys(), ...wanted])].sort();
  const toggle = (type: string) => {
    const next = wanted.has(type) ? [...wanted].filter((one) => one !== type) : [...wanted, type];
    onChange(next.join(",") || undefined);
  };
  return (
    <fieldset className="flex min-w-0 gap-1.5 max-sm:-mx-4 max-sm:overflow-x-auto max-sm:px-4 max-sm:pb-1 sm:flex-wrap">
      <legend className="sr-only">{words.types}</legend>
      {known.map((type) => (
        <button
          key={type}
          type="button"
          aria-pressed={wanted.has(type)}
          onClick={() => toggle(type)}
          className={classes(
            "shrink-0 rounded-full border px-2.5 py-0.5 font-mono text-xs",
            wanted.has(type)
              ? "border-accent bg-accent-soft text-accent-strong"
              : "border-line bg-surface text-muted hover:bg-hover hover:text-ink",
          )}
        >
          {type} <span className="tabular-nums">{shown.types.get(type) ?? 0}</span>
        </button>
      ))}
    </fieldset>
  );
}
