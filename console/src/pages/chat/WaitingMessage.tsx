import { Badge } from "../../parts/Badge";
import { Button } from "../../parts/Button";
import { useTexts } from "../../texts";
import type { Sending } from "./sending";

/** What was said here and is not in the log yet; or was not taken, and why. */
export function WaitingMessage({ sending: { waiting, error, retry, takeBack } }: { sending: Sending }) {
  const { chat, parts } = useTexts();
  if (!waiting) return null;
  return (
    <div className="flex flex-col items-end gap-1.5">
      <div className="max-w-[85%] rounded-2xl rounded-br-md bg-sunken px-4 py-2.5 break-words whitespace-pre-wrap">
        <span>{waiting.text}</span>
        {waiting.files.length > 0 && (
          <span className="mt-1 block text-sm text-muted">{waiting.files.map(({ name }) => name).join(", ")}</span>
        )}
      </div>
      {error === null ? (
        <Badge>{chat.sending}</Badge>
      ) : (
        <div role="alert" className="flex flex-wrap items-center justify-end gap-2 text-right text-sm text-bad">
          <span>
            {chat.notSent}: {error}
          </span>
          <Button onClick={retry}>{parts.retry}</Button>
          <Button onClick={takeBack}>{chat.takeBack}</Button>
        </div>
      )}
    </div>
  );
}
