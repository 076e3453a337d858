import type { WorkflowDocument } from "@stellwerk/client";
import { download } from "../../parts/files";
import { Icon } from "../../parts/Icon";
import { useToast } from "../../parts/Toast";
import { wordsFor } from "../../parts/Trouble";
import { useAction } from "../../server/action";
import { useTexts } from "../../texts";
import { bytes } from "../../texts/figures";
import { fileName, fileOf } from "./documents";

/** A file that can be downloaded, and why it could not be read, if it could not. */
export function DocumentRow({ document, note }: { document: WorkflowDocument; note?: string }) {
  const texts = useTexts();
  const { workflows: words, language } = texts;
  const say = useToast();
  const get = useAction({
    mutationFn: () => download(fileOf(document)),
    onError: (error) => say(wordsFor(error, texts), true),
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
