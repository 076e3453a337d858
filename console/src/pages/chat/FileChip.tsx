import { errorText } from "../../parts/ErrorNote";
import { download, storedFile } from "../../parts/files";
import { Icon } from "../../parts/Icon";
import { useToast } from "../../parts/Toast";
import { useTexts } from "../../texts";

/** A file of the conversation, to download. */
export function FileChip({ id, name }: { id: string; name: string }) {
  const texts = useTexts();
  const say = useToast();
  return (
    <button
      type="button"
      title={texts.chat.download(name)}
      onClick={() => download(storedFile(id, name, "")).catch((error: unknown) => say(errorText(error, texts), true))}
      className="inline-flex max-w-full items-center gap-1.5 rounded-lg border border-line bg-surface px-2.5 py-1 text-sm hover:border-accent"
    >
      <Icon name="file" size={15} />
      <span className="truncate">{name}</span>
    </button>
  );
}
