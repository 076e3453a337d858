import type { WorkflowDocument } from "@stellwerk/client";
import { errorText } from "../../parts/ErrorNote";
import { download } from "../../parts/files";
import { Icon } from "../../parts/Icon";
import { useToast } from "../../parts/Toast";
import { useAction } from "../../server/action";
import { useTexts } from "../../texts";
import { bytes } from "../../texts/figures";
import { fileName, fileOf } from "./documents";

/** A file to download, with the reason if it could not be read. */
export function DocumentRow({ document, note }: { document: WorkflowDocument; note?: string }) {
  const texts = useTexts();
  const { workflows: words, language } = texts;
  const say = useToast();
  const get = useAction({
    mutationFn: () => download(fileOf(document)),
    onError: (error) => say(errorText(error, texts), true),
  });
  const summary = [note, bytes(document.size, language)].filter(Boolean).join(" · ");
  return (
    <li className="max-w-full min-w-0">
      <button
        type="button"
        disabled={get.isPending}
        onClick={() => get.mutate()}
        className="flex w-full items-center gap-2.5 rounded-lg border border-line bg-surface px-3 py-2 text-left text-sm hover:bg-hover"
      >
        <span className="text-accent">
          <Icon name="download" size={16} />
        </span>
        <span className="min-w-0 flex-1">
          <span className="sr-only">{words.download} </span>
          <span className="block truncate font-medium">{fileName(document)}</span>
          <span className="block truncate text-xs text-muted">{summary}</span>
        </span>
      </button>
      {document.error && <p className="mt-1 text-sm break-words text-bad">{document.error.message}</p>}
    </li>
  );
}
