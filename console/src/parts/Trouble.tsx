import { Problem } from "@stellwerk/client";
import { useTexts } from "../texts";
import type { Texts } from "../texts/types";
import { Button } from "./Button";
import { Icon } from "./Icon";

/** What went wrong, in a sentence: the server's own words, if this language has none for them. */
export function wordsFor(error: unknown, { problems }: Texts): string {
  if (error instanceof TypeError) return problems.unreachable; // what fetch throws when nobody answers
  if (!(error instanceof Problem)) return problems.unknown;
  if (error.status === 0) return problems.unreachable;
  if (error.status === 401) return problems.unauthorized;
  return problems.told(error.code) || sentence(error.message) || problems.unknown;
}

/** What begins with a word, and not with the name of a field, begins like a sentence. */
const sentence = (told: string): string =>
  told.replace(/^[a-z]+(?= )/, (word) => word[0]?.toUpperCase() + word.slice(1));

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
        {error instanceof Problem && error.status > 0 && <p className="mt-0.5 font-mono text-xs">{error.code}</p>}
      </div>
      {onRetry && <Button onClick={onRetry}>{texts.parts.retry}</Button>}
    </div>
  );
}
