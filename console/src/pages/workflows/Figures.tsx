import { type Session, tokensOf, type WorkflowMessage } from "@stellwerk/client";
import { Card } from "../../parts/Card";
import { useTexts } from "../../texts";
import { bytes, duration, number } from "../../texts/figures";
import { bytesOf } from "./documents";

/** Tokens, run time and transferred bytes. */
export function Figures({ session, messages }: { session: Session; messages: readonly WorkflowMessage[] }) {
  const { workflows: words, language } = useTexts();
  const { received, sent } = bytesOf(messages);
  const { inputTokens, outputTokens } = tokensOf(session);
  const figures = [
    [words.tokens, number(inputTokens + outputTokens, language)],
    ...(session.usage.seconds ? [[words.time, duration(session.usage.seconds, language)]] : []), // known at the end
    [words.received, bytes(received, language)],
    [words.delivered, bytes(sent, language)],
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
