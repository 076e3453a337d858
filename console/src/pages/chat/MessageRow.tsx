import type { SessionDocument } from "@stellwerk/client";
import { memo, useMemo } from "react";
import { Badge } from "../../parts/Badge";
import { Disclosure } from "../../parts/Disclosure";
import { Markdown } from "../../parts/Markdown";
import { StructuredView } from "../../parts/StructuredView";
import { useTexts } from "../../texts";
import { blocksOf } from "./blocks";
import { FileChip } from "./FileChip";
import { type MessageItem, nameOf } from "./items";
import { jsonIn } from "./jsonIn";
import { MessageActions } from "./MessageActions";
import { SentParameters } from "./SentParameters";

interface Props {
  sid: string;
  item: MessageItem;
  text: string;
  reasoning: string;
  documents: readonly SessionDocument[];
  isPast: boolean;
}

/** A message. Rerenders only if it has changed. */
export const MessageRow = memo(
  (props: Props) => (props.item.entry.role === "user" ? <FromUser {...props} /> : <FromAgent {...props} />),
  (before, after) =>
    before.text === after.text &&
    before.reasoning === after.reasoning &&
    before.documents === after.documents &&
    before.isPast === after.isPast &&
    before.item.entry === after.item.entry &&
    before.item.isQueued === after.item.isQueued &&
    before.item.isFirst === after.item.isFirst &&
    before.item.isLast === after.item.isLast &&
    before.item.forkAt === after.item.forkAt,
);

function FromUser({ sid, item, text, documents, isPast }: Props) {
  const { chat } = useTexts();
  const { entry } = item;
  const names = new Map(documents.map(({ documentId, name }) => [documentId, name]));
  return (
    <div className="group flex flex-col items-end">
      <p className="sr-only">{entry.author ?? chat.you}</p>
      <div className="flex max-w-[85%] items-start gap-1">
        {!isPast && <MessageActions sid={sid} item={item} text={text} />}
        <div className="min-w-0 rounded-2xl rounded-br-md bg-accent-soft px-4 py-2.5 break-words whitespace-pre-wrap">
          {text && (
            <span dir="auto" className="block">
              {text}
            </span>
          )}
          {entry.parameters && <SentParameters of={entry.parameters} />}
          {entry.documents && entry.documents.length > 0 && (
            <span className="mt-2 flex flex-wrap gap-1.5 first:mt-0">
              {[...new Set(entry.documents)].map((id) => (
                <FileChip key={id} id={id} name={names.get(id) ?? id} />
              ))}
            </span>
          )}
        </div>
      </div>
      {item.isQueued && (
        <span className="mt-1">
          <Badge tone="warn">{chat.queued}</Badge>
        </span>
      )}
    </div>
  );
}

function FromAgent({ sid, item, text, reasoning, documents, isPast }: Props) {
  const { chat } = useTexts();
  const { entry } = item;
  const made = item.forkAt === undefined ? [] : documents.filter(({ runId, agent }) => agent && runId === entry.runId);
  return (
    <div className="group">
      {item.isFirst && <p className="mb-1 text-sm font-semibold">{nameOf(entry) ?? chat.assistant}</p>}
      {reasoning && (
        <Disclosure
          className="-ml-2 mb-2 text-sm text-muted"
          summary={chat.reasoning}
          memory={`reasoning ${sid} ${item.key}`}
        >
          <div dir="auto" className="ml-4 border-l border-line pl-4 whitespace-pre-wrap">
            {reasoning}
          </div>
        </Disclosure>
      )}
      {entry.state === "streaming" ? (
        <Growing text={text} />
      ) : (
        <Said text={text} output={entry.output} isWhole={entry.state === "said"} />
      )}
      {entry.state === "abandoned" && (
        <p className="mt-1.5">
          <Badge tone="warn">{chat.cutOff}</Badge>
        </p>
      )}
      {made.length > 0 && (
        <p className="mt-3 flex flex-wrap gap-1.5">
          {made.map(({ documentId, name }) => (
            <FileChip key={`${documentId} ${name}`} id={documentId} name={name} />
          ))}
        </p>
      )}
      {!isPast && item.forkAt !== undefined && <MessageActions sid={sid} item={item} text={text} />}
    </div>
  );
}

interface SaidProps {
  text: string;
  /** The structured output of a graph; the text may be the same as JSON. */
  output: unknown;
  isWhole: boolean;
}

/** A complete text as Markdown, and a structured result. */
function Said({ text, output, isWhole }: SaidProps) {
  const value = useMemo(() => (isWhole ? jsonIn(text) : null), [text, isWhole]);
  const isShownBelow = value !== null || (output !== undefined && /^[[{]/.test(text));
  return (
    <div className="space-y-3">
      {!isShownBelow && text && <Markdown text={text} />}
      {(output ?? value) !== null && <StructuredView value={output ?? value} />}
    </div>
  );
}

/** While streaming, the text is split into blocks so that only the last one is parsed again. */
function Growing({ text }: { text: string }) {
  return (
    <div className="space-y-3">
      {blocksOf(text).map((block, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a block keeps its index
        <Markdown key={index} text={block} />
      ))}
    </div>
  );
}
