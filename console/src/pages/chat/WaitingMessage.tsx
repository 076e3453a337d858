import { Badge } from "../../parts/Badge";
import { Button } from "../../parts/Button";
import type { Outgoing } from "../../state/draft";
import { useTexts } from "../../texts";
import type { Sending } from "./sending";

interface Props {
  message: Outgoing;
  /** Of the one that is on its way; others come after it. */
  sending: Sending | null;
}

/** What was said here and is not in the log yet; or was not taken, and why. */
export function WaitingMessage({ message, sending }: Props) {
  const { chat, parts } = useTexts();
  const error = sending?.error ?? null;
  return (
    <div className="flex flex-col items-end gap-1.5">
      <div className="max-w-[85%] rounded-2xl rounded-br-md bg-sunken px-4 py-2.5 break-words whitespace-pre-wrap">
        <span>{message.text}</span>
        {message.files.length > 0 && (
          <span className="mt-1 block text-sm text-muted">{message.files.map(({ name }) => name).join(", ")}</span>
        )}
      </div>
      {error === null ? (
        <Badge>{chat.sending}</Badge>
      ) : (
        <div role="alert" className="flex flex-wrap items-center justify-end gap-2 text-right text-sm text-bad">
          <span>
            {chat.notSent}: {error}
          </span>
          <Button onClick={sending?.retry}>{parts.retry}</Button>
          <Button onClick={sending?.takeBack}>{chat.takeBack}</Button>
        </div>
      )}
    </div>
  );
}
