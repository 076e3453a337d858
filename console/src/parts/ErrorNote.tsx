import { Problem } from "@stellwerk/client";
import { useTexts } from "../texts";
import type { Texts } from "../texts/types";
import { Button } from "./Button";
import { Icon } from "./Icon";

/** An error as a sentence: our own text for the code, else the server's. */
export function errorText(error: unknown, { problems }: Texts): string {
  if (error instanceof TypeError) return problems.unreachable; // thrown by fetch when the server is unreachable
  if (!(error instanceof Problem)) return problems.unknown;
  if (error.status === 0) return problems.unreachable;
  if (error.status === 401) return problems.unauthorized;
  return problems.byCode(error.code) || sentence(error.message) || problems.unknown;
}

/** Capitalises a message unless it starts with the name of a field. */
const sentence = (text: string): string =>
  text.replace(/^[a-z]+(?= )/, (word) => word[0]?.toUpperCase() + word.slice(1));

/** An error in place of the content. */
export function ErrorNote({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const texts = useTexts();
  return (
    <div role="alert" className="flex flex-wrap items-start gap-3 rounded-xl bg-bad-soft px-4 py-3 text-bad">
      <span className="mt-0.5">
        <Icon name="alert" />
      </span>
      <div className="min-w-0 flex-1 basis-40">
        <p className="break-words">{errorText(error, texts)}</p>
        {error instanceof Problem && error.status > 0 && <p className="mt-0.5 font-mono text-xs">{error.code}</p>}
      </div>
      {onRetry && <Button onClick={onRetry}>{texts.parts.retry}</Button>}
    </div>
  );
}
