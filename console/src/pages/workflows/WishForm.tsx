import { type FormEvent, type KeyboardEvent, type ReactNode, useId, useState } from "react";
import { Button } from "../../parts/Button";
import { Choice } from "../../parts/Field";
import { Icon } from "../../parts/Icon";
import { Trouble } from "../../parts/Trouble";
import { useTexts } from "../../texts";
import { FileDrop } from "./FileDrop";
import { ANSWERS, type Answer, inLanguage } from "./languages";
import { isUnderWay } from "./uploads";
import { useUploads } from "./useUploads";

export interface Wish {
  prompt: string;
  listFileId: readonly number[];
}

interface Props {
  label: string;
  hint?: string;
  send: string;
  /** When it resolves, the form is empty again. */
  onSend: (wish: Wish) => Promise<unknown>;
  pending: boolean;
  error: unknown;
  /** More to choose from. */
  children?: ReactNode;
}

/** What is to be done, with which files, in which language. */
export function WishForm({ label, hint, send, onSend, pending, error, children }: Props) {
  const { workflows: words } = useTexts();
  const [text, setText] = useState("");
  const [language, setLanguage] = useState<Answer>("");
  const { files, add, remove, clear } = useUploads();
  const ready = text.trim() !== "" && !pending && !files.some(isUnderWay);
  const go = async () => {
    const listFileId = files.flatMap(({ stored }) => (stored ? [stored.fileId] : []));
    await onSend({ prompt: inLanguage(text, language), listFileId });
    setText("");
    clear();
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (ready) void go().catch(() => {}); // what went wrong is in `error`
  };
  return (
    <form onSubmit={submit} className="space-y-5">
      <WishText label={label} hint={hint} value={text} onChange={setText} />
      <FileDrop files={files} onAdd={add} onRemove={remove} />
      <div className="flex flex-wrap items-end gap-4">
        {children}
        <Choice
          label={words.language}
          value={language}
          onChange={setLanguage}
          options={[
            { value: "", label: words.languageOfWish },
            ...Object.entries(ANSWERS).map(([value, { name }]) => ({ value: value as Answer, label: name })),
          ]}
        />
        <Button type="submit" look="primary" className="ml-auto" disabled={!ready}>
          <Icon name="chevron" size={16} /> {send}
        </Button>
      </div>
      {error !== null && <Trouble error={error} />}
    </form>
  );
}

interface TextProps {
  label: string;
  hint?: string | undefined;
  value: string;
  onChange: (text: string) => void;
}

function WishText({ label, hint, value, onChange }: TextProps) {
  const id = useId();
  const sends = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
  };
  return (
    <div>
      <label htmlFor={id} className="mb-1.5 block text-sm font-medium">
        {label}
      </label>
      <textarea
        id={id}
        rows={4}
        value={value}
        onChange={({ target }) => onChange(target.value)}
        onKeyDown={sends}
        aria-describedby={hint ? `${id}-hint` : undefined}
        className="block w-full resize-y rounded-lg border border-line-strong bg-surface px-3 py-2 text-ink placeholder:text-muted"
      />
      {hint && (
        <p id={`${id}-hint`} className="mt-1.5 text-sm text-muted">
          {hint}
        </p>
      )}
    </div>
  );
}
