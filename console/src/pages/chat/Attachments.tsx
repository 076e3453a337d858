import { Icon } from "../../parts/Icon";
import type { Draft } from "../../state/draft";
import { useTexts } from "../../texts";
import type { Attaching } from "./attaching";

/** The files that go with the next message. */
export function Attachments({ draft, attaching }: { draft: Draft; attaching: Attaching }) {
  const { chat } = useTexts();
  if (!draft.files.length && !attaching.uploads.length) return null;
  return (
    <ul className="mb-1 flex flex-wrap gap-1.5 px-1 pt-1">
      {draft.files.map(({ id, name }) => (
        <li key={id} className="flex max-w-full items-center gap-1.5 rounded-lg bg-sunken py-1 pr-1 pl-2.5 text-sm">
          <Icon name="file" size={15} />
          <span className="truncate">{name}</span>
          <button
            type="button"
            aria-label={chat.detach(name)}
            className="rounded p-0.5 text-muted hover:bg-hover hover:text-ink"
            onClick={() => attaching.leaveOut(id)}
          >
            <Icon name="close" size={14} />
          </button>
        </li>
      ))}
      {attaching.uploads.map(({ key, name }) => (
        <li key={key} role="status" className="animate-pulse rounded-lg bg-sunken px-2.5 py-1 text-sm text-muted">
          {chat.uploading(name)}
        </li>
      ))}
    </ul>
  );
}
