import { type Session, tokensOf, type WorkflowMessage } from "@stellwerk/client";
import { Card } from "../../parts/Card";
import { useTexts } from "../../texts";
import { sizeOf, timeOf } from "../../texts/sizes";
import { bytesOf } from "./documents";

/** What it took. */
export function Figures({ session, messages }: { session: Session; messages: readonly WorkflowMessage[] }) {
  const { workflows: words, language } = useTexts();
  const { received, sent } = bytesOf(messages);
  const { inputTokens, outputTokens } = tokensOf(session);
  const figures = [
    [words.tokens, new Intl.NumberFormat(language).format(inputTokens + outputTokens)],
    [words.time, timeOf(session.usage.seconds, language)],
    [words.received, sizeOf(received, language)],
    [words.delivered, sizeOf(sent, language)],
  ];
  return (
    <Card title={words.figures}>
      <dl className="grid grid-cols-2 gap-x-4 gap-y-2 text-sm">
        {figures.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-muted">{name}</dt>
            <dd className="text-right tabular-nums">{value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}
