import { type RefObject, useRef, useState } from "react";
import { useTexts } from "../../texts";
import { Button } from "../Button";
import { Icon } from "../Icon";
import { contentBlock, insertedAt } from "./contentBlock";

interface Props {
  /** The field with the JSON. */
  into: RefObject<HTMLTextAreaElement | null>;
  onChange: (typed: string) => void;
}

/** Puts a file into JSON, as a content block at the cursor. */
export function InsertFile({ into, onChange }: Props) {
  const { parts } = useTexts();
  const choosing = useRef<HTMLInputElement>(null);
  const [tooLarge, setTooLarge] = useState<string | null>(null);
  const insert = async (file: File) => {
    const block = await contentBlock(file);
    setTooLarge(block === null ? file.name : null);
    const field = into.current;
    if (block === null || field === null) return;
    onChange(insertedAt(field.value, field.selectionStart, field.selectionEnd, block));
    field.focus();
  };
  return (
    <>
      <input
        ref={choosing}
        type="file"
        hidden
        onChange={(event) => {
          const [file] = event.target.files ?? [];
          event.target.value = "";
          if (file) void insert(file);
        }}
      />
      <Button look="quiet" className="mt-1 h-8!" onClick={() => choosing.current?.click()}>
        <Icon name="clip" size={15} /> {parts.insertFile}
      </Button>
      {tooLarge !== null && (
        <p role="alert" className="mt-1 text-sm text-bad">
          {parts.fileTooLarge(tooLarge)}
        </p>
      )}
    </>
  );
}
