import { reasoningOf, type Session, textOf } from "@stellwerk/client";
import { Icon } from "../../parts/Icon";
import { useTexts } from "../../texts";
import { EndNote } from "./EndNote";
import type { Item } from "./items";
import { MessageRow } from "./MessageRow";
import { QuestionCard } from "./questions/QuestionCard";
import type { Sending } from "./sending";
import { WaitingMessage } from "./WaitingMessage";
import { WarningNote } from "./WarningNote";

interface Props {
  sid: string;
  session: Session;
  item: Item;
  isPast: boolean;
  sending: Sending;
}

/** One row of the conversation. */
export function Row({ sid, session, item, isPast, sending }: Props) {
  switch (item.kind) {
    case "message":
      return (
        <MessageRow
          sid={sid}
          item={item}
          text={textOf(session, item.entry)}
          reasoning={reasoningOf(session, item.entry)}
          documents={session.documents}
          isPast={isPast}
        />
      );
    case "question":
      return <QuestionCard sid={sid} question={item.question} isPast={isPast} />;
    case "answer":
      return <p className="whitespace-pre-wrap">{item.entry.text}</p>;
    case "end":
      return <EndNote sid={sid} run={item.run} canRepeat={item.isLast && !isPast} />;
    case "warning":
      return <WarningNote message={item.problem.message} />;
    case "waiting":
      return <WaitingMessage message={item.message} sending={sending} />;
    case "working":
      return <Working tool={item.tool} isWriting={item.isWriting} />;
  }
}

function Working({ tool, isWriting }: { tool: string | null; isWriting: boolean }) {
  const { chat } = useTexts();
  return (
    <p className="flex items-center gap-2 text-sm text-muted">
      <span aria-hidden className="flex gap-1">
        {["", "[animation-delay:150ms]", "[animation-delay:300ms]"].map((delay) => (
          <span key={delay} className={`size-1.5 animate-pulse rounded-full bg-accent ${delay}`} />
        ))}
      </span>
      {tool !== null && <Icon name="tools" size={15} />}
      {tool !== null ? chat.toolRunning(tool) : isWriting ? chat.writing : chat.thinking}
    </p>
  );
}
