import { type DragEvent, useId, useState } from "react";
import { Button } from "../../parts/Button";
import { classes } from "../../parts/classes";
import { errorText } from "../../parts/ErrorNote";
import { Icon } from "../../parts/Icon";
import { useTexts } from "../../texts";
import { bytes } from "../../texts/figures";
import { ProgressBar } from "./ProgressBar";
import { isUnderWay, type Sending } from "./uploads";

interface Props {
  files: readonly Sending[];
  onAdd: (files: readonly File[]) => void;
  onRemove: (key: number) => void;
}

/** A drop zone with a file chooser, and the state of each upload. */
export function FileDrop({ files, onAdd, onRemove }: Props) {
  const { workflows: words } = useTexts();
  const [over, setOver] = useState(false);
  const id = useId();
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    onAdd([...event.dataTransfer.files]);
  };
  return (
    <div className="space-y-3">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: dropping is an addition; the field inside does the same */}
      <div
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
        className={classes(
          "relative flex flex-wrap items-center gap-x-3 gap-y-1 rounded-xl border border-dashed px-4 py-4 text-sm focus-within:outline-2 focus-within:outline-accent",
          over ? "border-accent bg-accent-soft" : "border-line-strong bg-canvas",
        )}
      >
        <Icon name="upload" />
        <label htmlFor={id} className="cursor-pointer font-medium text-accent after:absolute after:inset-0">
          {words.chooseFiles}
        </label>
        <span className="text-muted">{words.orDrop}</span>
        <input
          id={id}
          type="file"
          multiple
          className="sr-only"
          onChange={({ target }) => {
            onAdd([...(target.files ?? [])]);
            target.value = "";
          }}
        />
      </div>
      {files.length > 0 && (
        <ul aria-label={words.files} className="space-y-2">
          {files.map((file) => (
            <FileRow key={file.key} file={file} onRemove={() => onRemove(file.key)} />
          ))}
        </ul>
      )}
    </div>
  );
}

function FileRow({ file, onRemove }: { file: Sending; onRemove: () => void }) {
  const texts = useTexts();
  const { workflows: words, language } = texts;
  const refused = file.refused !== undefined;
  return (
    <li className={classes("rounded-lg border px-3 py-2", refused ? "border-bad bg-bad-soft" : "border-line")}>
      <div className="flex items-center gap-2.5 text-sm">
        <span className={refused ? "text-bad" : file.stored ? "text-good" : "text-muted"}>
          <Icon name={refused ? "alert" : file.stored ? "check" : "file"} size={16} />
        </span>
        <span className="min-w-0 flex-1 truncate font-medium">{file.name}</span>
        <span className="shrink-0 text-muted tabular-nums">{bytes(file.size, language)}</span>
        <Button look="quiet" square aria-label={words.removeFile(file.name)} onClick={onRemove}>
          <Icon name="close" size={16} />
        </Button>
      </div>
      {isUnderWay(file) && (
        <ProgressBar label={words.uploading(file.name)} percent={Math.round(file.part * 100)} className="mt-1" />
      )}
      {refused && (
        <p role="alert" className="text-sm text-bad">
          {words.refused} {errorText(file.refused, texts)}
        </p>
      )}
    </li>
  );
}
