import { useEffect, useRef } from "react";
import { useTexts } from "../../texts";
import { Button } from "../Button";
import { Icon } from "../Icon";
import { FormFields, type FormFieldsProps, Needed } from "./FormFields";
import { initialOf, inner, type Typed } from "./formValues";

type Props = Omit<Required<FormFieldsProps>, "labelHidden">;

/** A list: its items one below the other, with buttons to add and to remove one. */
export function ListField({ field, typed, onChange, errors, path, label, isRoomy }: Props) {
  const { parts } = useTexts();
  const rows = useRef<HTMLOListElement>(null);
  const adding = useRef<HTMLButtonElement>(null);
  const isAdded = useRef(false);
  const { shape, hint } = field;
  const items = typed as readonly Typed[];
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new item gets the focus as soon as it is there
  useEffect(() => {
    if (isAdded.current) rows.current?.lastElementChild?.querySelector<HTMLElement>(CONTROLS)?.focus();
    isAdded.current = false;
  }, [items.length]);
  if (shape.kind !== "list") return null;
  const { item } = shape;
  const add = () => {
    isAdded.current = true;
    onChange([...items, initialOf(item)]);
  };
  const remove = (index: number) => {
    adding.current?.focus();
    onChange(items.toSpliced(index, 1));
  };
  const note = errors[path] ?? hint;
  return (
    <fieldset className="min-w-0 rounded-lg border border-line p-4 pt-2">
      <legend className="px-1 text-sm font-medium">
        {label}
        <Needed of={field} />
      </legend>
      {note && <p className={errors[path] ? "mb-3 text-sm text-bad" : "mb-3 text-sm text-muted"}>{note}</p>}
      <ol ref={rows} className="space-y-3 not-empty:mb-3">
        {items.map((one, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: an item has no other identity
          <li key={index} className="flex items-start gap-2">
            <div className="min-w-0 flex-1">
              <FormFields
                field={item}
                typed={one}
                onChange={(value) => onChange(items.with(index, value))}
                errors={errors}
                path={inner(path, String(index))}
                label={`${label} ${index + 1}`}
                labelHidden
                isRoomy={isRoomy}
              />
            </div>
            <Button
              look="quiet"
              square
              aria-label={parts.removeItem(`${label} ${index + 1}`)}
              title={parts.removeItem(`${label} ${index + 1}`)}
              onClick={() => remove(index)}
            >
              <Icon name="trash" size={16} />
            </Button>
          </li>
        ))}
      </ol>
      <Button ref={adding} aria-label={`${parts.addItem}: ${label}`} onClick={add}>
        <Icon name="plus" size={15} /> {parts.addItem}
      </Button>
    </fieldset>
  );
}

const CONTROLS = "input, textarea, select, button";
