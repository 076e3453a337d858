import { Problem } from "@stellwerk/client";
import { Badge } from "../../parts/Badge";
import { Button } from "../../parts/Button";
import { errorText } from "../../parts/ErrorNote";
import type { Outgoing } from "../../state/outbox";
import { useTexts } from "../../texts";
import { SentParameters } from "./SentParameters";
import type { Sending } from "./sending";

/** A message that is not in the log yet, or was rejected, with the reason. */
export function WaitingMessage({ message, sending }: { message: Outgoing; sending: Sending }) {
  const texts = useTexts();
  const { chat, parts } = texts;
  const { refusal } = message;
  return (
    <div className="flex flex-col items-end gap-1.5">
      <div className="max-w-[85%] rounded-2xl rounded-br-md bg-sunken px-4 py-2.5 break-words whitespace-pre-wrap">
        {message.text && (
          <span dir="auto" className="block">
            {message.text}
          </span>
        )}
        {message.parameters && <SentParameters of={message.parameters} />}
        {message.files.length > 0 && (
          <span className="mt-1 block text-sm first:mt-0 text-muted">
            {message.files.map(({ name }) => name).join(", ")}
          </span>
        )}
      </div>
      {refusal === undefined ? (
        <Badge>{chat.sending}</Badge>
      ) : (
        <div
          role="alert"
          className="flex max-w-full flex-wrap items-center justify-end gap-2 text-right text-sm text-bad"
        >
          <span className="min-w-0 wrap-anywhere">
            {chat.notSent}: {errorText(new Problem(refusal.status, refusal), texts)}
          </span>
          <Button onClick={sending.retry}>{parts.retry}</Button>
          <Button onClick={() => sending.takeBack(message)}>{chat.takeBack}</Button>
        </div>
      )}
    </div>
  );
}
