import { type InputHTMLAttributes, type ReactNode, useId } from "react";
import { classes } from "./classes";

const BOX =
  "h-9 w-full rounded-lg border border-line-strong bg-surface px-3 text-sm text-ink placeholder:text-muted aria-invalid:border-bad";

interface Props extends InputHTMLAttributes<HTMLInputElement> {
  label: string;
  /** A label for screen readers only. */
  labelHidden?: boolean;
  hint?: ReactNode;
  error?: ReactNode;
  /** In a dialog: focused first. */
  "data-autofocus"?: boolean;
}

export function Field({ label, labelHidden = false, hint, error, className, ...input }: Props) {
  const id = useId();
  return (
    <div className={className}>
      <label htmlFor={id} className={labelHidden ? "sr-only" : "mb-1.5 block text-sm font-medium"}>
        {label}
      </label>
      <input
        id={id}
        className={BOX}
        aria-invalid={error ? true : undefined}
        aria-describedby={hint || error ? `${id}-note` : undefined}
        {...input}
      />
      {(error || hint) && (
        <p id={`${id}-note`} className={classes("mt-1.5 text-sm", error ? "text-bad" : "text-muted")}>
          {error || hint}
        </p>
      )}
    </div>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  options: readonly { value: T; label: string }[];
  onChange: (value: T) => void;
  labelHidden?: boolean;
}

export function Choice<T extends string>({ label, value, options, onChange, labelHidden = false }: ChoiceProps<T>) {
  const id = useId();
  return (
    <div>
      <label htmlFor={id} className={labelHidden ? "sr-only" : "mb-1.5 block text-sm font-medium"}>
        {label}
      </label>
      <select id={id} className={BOX} value={value} onChange={(event) => onChange(event.target.value as T)}>
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
    </div>
  );
}
