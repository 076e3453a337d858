import { type ReactNode, type RefObject, useId, useRef, useState } from "react";
import { useTexts } from "../../texts";
import { classes } from "../classes";
import { initialOf, inner, jsonMistake, type Typed } from "./formValues";
import { InsertFile } from "./InsertFile";
import { ListField } from "./ListField";
import type { FormField } from "./schema";

const BOX =
  "w-full rounded-lg border border-line-strong bg-surface px-3 text-sm text-ink placeholder:text-muted aria-invalid:border-bad max-md:text-base";

export interface FormFieldsProps {
  field: FormField;
  typed: Typed;
  onChange: (typed: Typed) => void;
  /** Errors by the path of the field. */
  errors: Readonly<Record<string, string>>;
  path?: string;
  /** The label of a form with a single unnamed field. */
  label?: string;
  /** A label for screen readers only. */
  labelHidden?: boolean;
  /** Texts may have several lines. */
  isRoomy?: boolean;
}

/** A form generated from a JSON Schema. */
export function FormFields({ path = "", isRoomy = false, ...props }: FormFieldsProps) {
  const { field, typed, onChange, errors, labelHidden = false } = props;
  const label = props.label ?? field.label;
  if (field.shape.kind === "list") return <ListField {...{ field, typed, onChange, errors, path, label, isRoomy }} />;
  if (field.shape.kind !== "object")
    return <OneField {...{ field, typed, onChange, error: errors[path], label, labelHidden, isRoomy }} />;
  const known = typed as { readonly [name: string]: Typed };
  const fields = field.shape.fields.map((one) => (
    <FormFields
      key={one.name}
      field={one}
      typed={known[one.name] ?? initialOf(one)}
      onChange={(value) => onChange({ ...known, [one.name]: value })}
      errors={errors}
      path={inner(path, one.name)}
      isRoomy={isRoomy}
    />
  ));
  if (path === "") return <div className="space-y-4">{fields}</div>;
  return (
    <fieldset className="min-w-0 rounded-lg border border-line p-4 pt-2">
      <legend className="px-1 text-sm font-medium">
        {label}
        <Needed of={field} />
      </legend>
      <div className="space-y-4">
        {field.hint && <p className="text-sm text-muted">{field.hint}</p>}
        {fields}
        {errors[path] && <p className="text-sm text-bad">{errors[path]}</p>}
      </div>
    </fieldset>
  );
}

/** Marks a required field. */
export function Needed({ of: { isNeeded, name } }: { of: FormField }) {
  const { questions } = useTexts();
  return isNeeded && name ? <span className="font-normal text-muted"> · {questions.isNeeded}</span> : null;
}

interface OneProps {
  field: FormField;
  typed: Typed;
  onChange: (typed: Typed) => void;
  error: string | undefined;
  label: string;
  labelHidden: boolean;
  isRoomy: boolean;
}

function OneField({ field, typed, onChange, error: given, label, labelHidden, isRoomy }: OneProps) {
  const id = useId();
  const { shape, hint, isNeeded } = field;
  const json = useJsonCheck(field, typed);
  const area = useRef<HTMLTextAreaElement>(null);
  const error = json.error ?? given;
  const note = error ?? hint;
  const asked = {
    id,
    "aria-invalid": error ? true : undefined,
    "aria-describedby": note ? `${id}-note` : undefined,
    "aria-required": isNeeded || undefined,
    onBlur: json.onBlur,
  };
  const name = (
    <>
      {label}
      <Needed of={field} />
    </>
  );
  const under = note && (
    <p id={`${id}-note`} className={classes("mt-1 text-sm break-words", error ? "text-bad" : "text-muted")}>
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
    const ticked = typed as readonly Typed[];
    return (
      <fieldset className="min-w-0">
        <legend className="mb-1.5 text-sm font-medium">{name}</legend>
        <div className="flex flex-wrap gap-x-5 gap-y-2">
          {shape.options.map((option, index) => (
            <Tick
              key={JSON.stringify(option)}
              label={words(option)}
              checked={ticked[index] === true}
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
      <label htmlFor={id} className={labelHidden ? "sr-only" : "mb-1.5 block text-sm font-medium"}>
        {name}
      </label>
      {control(field, String(typed), onChange, asked, isRoomy, area)}
      {shape.kind === "json" && isRoomy && <InsertFile into={area} onChange={onChange} />}
      {under}
    </div>
  );
}

/** Checks the JSON of a field when it loses the focus, and from then on while it is typed. */
function useJsonCheck({ shape }: FormField, typed: Typed) {
  const { questions } = useTexts();
  const [isLeft, setLeft] = useState(false);
  const text = shape.kind === "json" ? String(typed) : "";
  const mistake = isLeft && text.trim() ? jsonMistake(text) : null;
  return { error: mistake === null ? undefined : `${questions.json} ${mistake}`, onBlur: () => setLeft(true) };
}

type Asked = {
  id: string;
  "aria-invalid": boolean | undefined;
  "aria-describedby": string | undefined;
  onBlur: () => void;
};

function control(
  { shape }: FormField,
  typed: string,
  onChange: (typed: string) => void,
  asked: Asked,
  isRoomy: boolean,
  area: RefObject<HTMLTextAreaElement | null>,
): ReactNode {
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
  const isText = shape.kind === "text" && shape.type === "text";
  if (shape.kind === "json" || (shape.kind === "text" && shape.isLong) || (isText && isRoomy))
    return (
      <textarea
        {...asked}
        ref={area}
        rows={1}
        className={classes(
          BOX,
          "block py-1.5 field-sizing-content max-h-80",
          isText && !shape.isLong ? "min-h-9 resize-none" : "min-h-20",
          shape.kind === "json" && "font-mono",
        )}
        dir={shape.kind === "json" ? "ltr" : "auto"}
        placeholder={shape.kind === "json" ? "JSON" : undefined}
        spellCheck={shape.kind === "text"}
        value={typed}
        onChange={(event) => onChange(event.target.value)}
      />
    );
  return (
    <input
      {...asked}
      dir="auto"
      autoComplete={shape.kind === "text" && shape.type === "password" ? "off" : undefined}
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
