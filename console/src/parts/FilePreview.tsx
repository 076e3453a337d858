import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { useTexts } from "../texts";
import { bytes } from "../texts/figures";
import { Button } from "./Button";
import { DownloadButton } from "./DownloadButton";
import { contentOf, type FileRef, type PreviewKind, previewOf } from "./files";
import { Icon } from "./Icon";
import { JsonTree } from "./JsonTree";
import { Loaded } from "./Loaded";
import { LongText } from "./LongText";
import { Markdown } from "./Markdown";

interface Props {
  file: FileRef;
  /** Below the name: its author and date. */
  note?: string;
  /** Next to its buttons. */
  link?: ReactNode;
}

/** A file: name, preview and download. */
export function FilePreview({ file, note, link }: Props) {
  const { parts, language } = useTexts();
  const [open, setOpen] = useState(false);
  const kind = previewOf(file);
  const facts = [file.size !== undefined && bytes(file.size, language), note, file.mime].filter(Boolean).join(" · ");
  return (
    <div className="overflow-hidden rounded-lg border border-line">
      <div className="flex items-center gap-2 py-1.5 pr-1.5 pl-3">
        <span className="text-muted">
          <Icon name="file" />
        </span>
        <div className="min-w-0 flex-1">
          <p className="truncate text-sm font-medium" title={file.name}>
            {file.name}
          </p>
          <p className="truncate text-xs text-muted" title={facts}>
            {facts}
          </p>
        </div>
        {kind && (
          <Button
            look="quiet"
            square
            aria-expanded={open}
            aria-label={parts.preview(file.name)}
            title={parts.preview(file.name)}
            onClick={() => setOpen(!open)}
          >
            <Icon name="eye" />
          </Button>
        )}
        <DownloadButton file={file} />
        {link}
      </div>
      {open && kind && <Content file={file} kind={kind} />}
    </div>
  );
}

function Content({ file, kind }: { file: FileRef; kind: PreviewKind }) {
  const query = useQuery(contentOf(file, kind));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be focusable
    <section aria-label={file.name} tabIndex={0} className="max-h-96 overflow-auto border-t border-line p-3">
      <Loaded query={query}>{(content) => <Shown content={content} kind={kind} name={file.name} />}</Loaded>
    </section>
  );
}

function Shown({ content, kind, name }: { content: string | null; kind: PreviewKind; name: string }) {
  const { parts } = useTexts();
  if (content === null) return <p className="text-sm text-muted">{parts.tooLarge}</p>;
  if (kind === "image") return <img src={content} alt={name} className="mx-auto max-h-80 max-w-full object-contain" />;
  if (kind === "markdown") return <Markdown text={content} />;
  const json = kind === "json" ? parsed(content) : undefined;
  return json === undefined ? <LongText text={content} /> : <JsonTree value={json} />;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // show it as text, whatever its type says
  }
}
