import { type FormEvent, type KeyboardEvent, type ReactNode, useId, useState } from "react";
import { Button } from "../../parts/Button";
import { ErrorNote } from "../../parts/ErrorNote";
import { Choice } from "../../parts/Field";
import { Icon } from "../../parts/Icon";
import { useTexts } from "../../texts";
import { FileDrop } from "./FileDrop";
import { ANSWERS, type Answer, inLanguage } from "./languages";
import { isUnderWay } from "./uploads";
import { useUploads } from "./useUploads";

export interface WorkflowRequest {
  prompt: string;
  listFileId: readonly number[];
}

interface Props {
  label: string;
  hint?: string;
  send: string;
  /** The form is cleared when it resolves. */
  onSend: (request: WorkflowRequest) => Promise<unknown>;
  pending: boolean;
  error: unknown;
  /** More fields. */
  children?: ReactNode;
}

/** A request with files and a language. */
export function RequestForm({ label, hint, send, onSend, pending, error, children }: Props) {
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
    if (ready) void go().catch(() => {}); // errors are in `error`
  };
  return (
    <form onSubmit={submit} className="space-y-5">
      <RequestText label={label} hint={hint} value={text} onChange={setText} />
      <FileDrop files={files} onAdd={add} onRemove={remove} />
      <div className="flex flex-wrap items-end gap-4">
        {children}
        <Choice
          label={words.language}
          value={language}
          onChange={setLanguage}
          options={[
            { value: "", label: words.languageOfRequest },
            ...Object.entries(ANSWERS).map(([value, { name }]) => ({ value: value as Answer, label: name })),
          ]}
        />
        <Button type="submit" look="primary" className="ml-auto" disabled={!ready}>
          <Icon name="chevron" size={16} /> {send}
        </Button>
      </div>
      {error !== null && <ErrorNote error={error} />}
    </form>
  );
}

interface TextProps {
  label: string;
  hint?: string | undefined;
  value: string;
  onChange: (text: string) => void;
}

function RequestText({ label, hint, value, onChange }: TextProps) {
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
