import { Problem as Refusal } from "@stellwerk/client";
import { Problem } from "../server/ask";
import { useTexts } from "../texts";
import type { Texts } from "../texts/types";
import { Button } from "./Button";
import { Icon } from "./Icon";

/** Whether the server said so, to whichever of the two that ask it. */
const isTold = (error: unknown): error is Problem | Refusal => error instanceof Problem || error instanceof Refusal;

/** What went wrong, in a sentence: the server's own words, if this language has none for them. */
export function wordsFor(error: unknown, { problems }: Texts): string {
  if (error instanceof TypeError) return problems.unreachable; // what fetch throws when nobody answers
  if (!isTold(error)) return problems.unknown;
  if (error.status === 0) return problems.unreachable;
  if (error.status === 401) return problems.unauthorized;
  return problems.told(error.code) || error.message || problems.unknown;
}

/** An error where its answer would have been. */
export function Trouble({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const texts = useTexts();
  return (
    <div role="alert" className="flex flex-wrap items-start gap-3 rounded-xl bg-bad-soft px-4 py-3 text-bad">
      <span className="mt-0.5">
        <Icon name="alert" />
      </span>
      <div className="min-w-0 flex-1 basis-40">
        <p className="break-words">{wordsFor(error, texts)}</p>
        {isTold(error) && error.status > 0 && <p className="mt-0.5 font-mono text-xs">{error.code}</p>}
      </div>
      {onRetry && <Button onClick={onRetry}>{texts.parts.retry}</Button>}
    </div>
  );
}
