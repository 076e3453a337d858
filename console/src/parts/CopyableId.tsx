import { useTexts } from "../texts";
import { useCopy } from "./copy";
import { Icon } from "./Icon";

/** An id in small type, copied by a click. */
export function CopyableId({ id }: { id: string }) {
  const { parts } = useTexts();
  const copy = useCopy();
  return (
    <button
      type="button"
      title={parts.copyId(id)}
      aria-label={parts.copyId(id)}
      className="flex max-w-full items-center gap-1.5 rounded-md font-mono text-xs text-muted hover:text-ink"
      onClick={() => void copy(id)}
    >
      <span className="truncate">{id}</span> <Icon name="copy" size={13} />
    </button>
  );
}
