import { Icon } from "../../parts/Icon";
import type { Draft } from "../../state/draft";
import { useTexts } from "../../texts";
import type { Attaching } from "./attaching";

interface Props {
  draft: Draft;
  attaching: Attaching;
  /** A file was removed, and its button with it. */
  onTaken: () => void;
}

const LOOK = "flex max-w-full items-center gap-1.5 rounded-lg bg-sunken py-1 pr-1 pl-2.5 text-sm";

/** The files of the next message. */
export function Attachments({ draft, attaching, onTaken }: Props) {
  const { chat } = useTexts();
  if (!draft.files.length && !attaching.uploads.length) return null;
  const taking = (take: () => void) => () => {
    take();
    onTaken();
  };
  return (
    <ul className="mb-1 flex flex-wrap gap-1.5 px-1 pt-1">
      {draft.files.map(({ id, name }) => (
        <li key={id} className={LOOK}>
          <Icon name="file" size={15} />
          <span className="truncate">{name}</span>
          <TakeAway label={chat.detach(name)} onClick={taking(() => attaching.leaveOut(id))} />
        </li>
      ))}
      {attaching.uploads.map(({ key, name, cancel }) => (
        <li key={key} className={LOOK}>
          <span className="animate-pulse">
            <Icon name="file" size={15} />
          </span>
          <span role="status" className="truncate text-muted">
            {chat.uploading(name)}
          </span>
          <TakeAway label={chat.cancelUpload(name)} onClick={taking(cancel)} />
        </li>
      ))}
    </ul>
  );
}

function TakeAway({ label, onClick }: { label: string; onClick: () => void }) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      className="rounded p-0.5 text-muted hover:bg-hover hover:text-ink"
      onClick={onClick}
    >
      <Icon name="close" size={14} />
    </button>
  );
}
