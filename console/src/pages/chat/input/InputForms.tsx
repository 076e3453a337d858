import { type ReactNode, useId } from "react";
import { Button } from "../../../parts/Button";
import { classes } from "../../../parts/classes";
import { FormFields } from "../../../parts/form/FormFields";
import { Icon } from "../../../parts/Icon";
import { useTexts } from "../../../texts";
import type { ParameterForms, PartForm } from "./useParameters";
import type { Part } from "./wanted";

interface Props {
  parameters: ParameterForms;
  /** Parts that are shown whether "More" is open or not. */
  shown: readonly Part[];
  isOpen: boolean;
}

/** The forms of a message to a graph, above the input box. They scroll by themselves. */
export function InputForms({ parameters, shown, isOpen }: Props) {
  const { chat } = useTexts();
  const visible = parameters.forms.filter(({ part }) => isOpen || shown.includes(part));
  if (!visible.length) return null;
  return (
    <section
      aria-label={chat.fields}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be focusable
      tabIndex={0}
      className="mb-2 max-h-[45dvh] space-y-5 overflow-y-auto border-b border-line px-2 pt-1.5 pb-3"
    >
      {visible.map((form, index) => (
        <PartFields key={form.part} form={form} isTitled={visible.length > 1 || form.part !== "input"}>
          {index === 0 && <Clear parameters={parameters} />}
        </PartFields>
      ))}
    </section>
  );
}

interface PartProps {
  form: PartForm;
  isTitled: boolean;
  children: ReactNode;
}

function PartFields({ form: { part, field, typed, setTyped, errors }, isTitled, children }: PartProps) {
  const { chat } = useTexts();
  const id = useId();
  return (
    <fieldset aria-labelledby={id} className="min-w-0">
      <div className="mb-1 flex min-h-8 items-center justify-between gap-3">
        <h2 id={id} className={classes("text-sm font-semibold", !isTitled && "sr-only")}>
          {chat.parts[part]}
        </h2>
        <span className="ml-auto">{children}</span>
      </div>
      {part !== "input" && <p className="mb-3 text-sm text-muted">{chat.partsWhy[part]}</p>}
      <FormFields
        field={field}
        typed={typed}
        onChange={setTyped}
        errors={errors}
        label={field.label || chat.parts[part]}
        isRoomy
      />
    </fieldset>
  );
}

function Clear({ parameters }: { parameters: ParameterForms }) {
  const { chat } = useTexts();
  return (
    <Button look="quiet" className="h-8!" onClick={parameters.clear}>
      {chat.clearFields}
    </Button>
  );
}

interface MoreProps {
  isOpen: boolean;
  onToggle: () => void;
  /** How many parts of the message are below it. */
  count: number;
}

/** Opens the parts that are folded away; says how many of them are sent along. */
export function MoreButton({ isOpen, onToggle, count }: MoreProps) {
  const { chat } = useTexts();
  return (
    <Button look="quiet" aria-expanded={isOpen} className="px-2!" onClick={onToggle}>
      <span className={classes("transition-transform", isOpen ? "rotate-90" : "-rotate-90")}>
        <Icon name="chevron" size={15} />
      </span>
      {chat.more}
      {count > 0 && (
        <span className="rounded-full bg-accent-soft px-1.5 text-xs text-accent-strong">
          {count}
          <span className="sr-only"> {chat.sentAlong}</span>
        </span>
      )}
    </Button>
  );
}
