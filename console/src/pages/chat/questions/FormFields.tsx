import { type ReactNode, useId } from "react";
import { classes } from "../../../parts/classes";
import { useTexts } from "../../../texts";
import { inner, type Typed } from "./formValues";
import type { FormField } from "./schema";

const BOX =
  "w-full rounded-lg border border-line-strong bg-surface px-3 text-sm text-ink placeholder:text-muted aria-invalid:border-bad";

interface Props {
  field: FormField;
  typed: Typed;
  onChange: (typed: Typed) => void;
  /** Errors by the path of the field. */
  errors: Readonly<Record<string, string>>;
  path?: string;
  /** The label of a form with a single unnamed field. */
  label?: string;
}

/** A form generated from a JSON Schema. */
export function FormFields({ field, typed, onChange, errors, path = "", label }: Props) {
  if (field.shape.kind !== "object")
    return <OneField {...{ field, typed, onChange, error: errors[path], label: label ?? field.label }} />;
  const known = typed as { readonly [name: string]: Typed };
  const fields = field.shape.fields.map((one) => (
    <FormFields
      key={one.name}
      field={one}
      typed={known[one.name] ?? ""}
      onChange={(value) => onChange({ ...known, [one.name]: value })}
      errors={errors}
      path={inner(path, one.name)}
    />
  ));
  if (path === "") return <div className="space-y-4">{fields}</div>;
  return (
    <fieldset className="min-w-0 space-y-4 rounded-lg border border-line p-4">
      <legend className="px-1 text-sm font-medium">{field.label}</legend>
      {fields}
    </fieldset>
  );
}

interface OneProps {
  field: FormField;
  typed: Typed;
  onChange: (typed: Typed) => void;
  error: string | undefined;
  label: string;
}

function OneField({ field, typed, onChange, error, label }: OneProps) {
  const { questions } = useTexts();
  const id = useId();
  const { shape, hint, isNeeded } = field;
  const note = error ?? hint;
  const asked = {
    id,
    "aria-invalid": error ? true : undefined,
    "aria-describedby": note ? `${id}-note` : undefined,
    "aria-required": isNeeded || undefined,
  };
  const name = (
    <>
      {label}
      {isNeeded && field.name && <span className="font-normal text-muted"> · {questions.isNeeded}</span>}
    </>
  );
  const under = note && (
    <p id={`${id}-note`} className={classes("mt-1 text-sm", error ? "text-bad" : "text-muted")}>
      {note}
    </p>
  );
  if (shape.kind === "boolean")
    return (
      <div>
        <Tick {...asked} label={label} checked={typed === true} onChange={onChange} />
        {under}
      </div>
    );
  if (shape.kind === "several") {
    const ticked = typed as readonly boolean[];
    return (
      <fieldset className="min-w-0">
        <legend className="mb-1.5 text-sm font-medium">{name}</legend>
        <div className="flex flex-wrap gap-x-5 gap-y-2">
          {shape.options.map((option, index) => (
            <Tick
              key={JSON.stringify(option)}
              label={words(option)}
              checked={ticked[index] ?? false}
              onChange={(on) => onChange(ticked.with(index, on))}
            />
          ))}
        </div>
        {under}
      </fieldset>
    );
  }
  return (
    <div>
      <label htmlFor={id} className="mb-1.5 block text-sm font-medium">
        {name}
      </label>
      {control(field, String(typed), onChange, asked)}
      {under}
    </div>
  );
}

type Asked = { id: string; "aria-invalid": boolean | undefined; "aria-describedby": string | undefined };

function control({ shape }: FormField, typed: string, onChange: (typed: string) => void, asked: Asked): ReactNode {
  if (shape.kind === "choice")
    return (
      <select {...asked} className={`${BOX} h-9`} value={typed} onChange={(event) => onChange(event.target.value)}>
        <option value="">–</option>
        {shape.options.map((option, index) => (
          <option key={JSON.stringify(option)} value={index}>
            {words(option)}
          </option>
        ))}
      </select>
    );
  if (shape.kind === "json" || (shape.kind === "text" && shape.isLong))
    return (
      <textarea
        {...asked}
        className={classes(BOX, "py-2 field-sizing-content max-h-80 min-h-20", shape.kind === "json" && "font-mono")}
        dir={shape.kind === "json" ? "ltr" : "auto"}
        spellCheck={shape.kind === "text"}
        value={typed}
        onChange={(event) => onChange(event.target.value)}
      />
    );
  return (
    <input
      {...asked}
      dir="auto"
      className={`${BOX} h-9`}
      type={shape.kind === "text" ? shape.type : "text"}
      inputMode={shape.kind === "number" ? "decimal" : undefined}
      value={typed}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}

interface TickProps {
  label: string;
  checked: boolean;
  onChange: (on: boolean) => void;
}

function Tick({ label, checked, onChange, ...rest }: TickProps) {
  return (
    <label className="flex items-center gap-2.5 text-sm">
      <input
        type="checkbox"
        className="size-4 accent-accent"
        checked={checked}
        onChange={(event) => onChange(event.target.checked)}
        {...rest}
      />
      {label}
    </label>
  );
}

/** The label of an option. */
export const words = (option: unknown): string => (typeof option === "string" ? option : JSON.stringify(option));
