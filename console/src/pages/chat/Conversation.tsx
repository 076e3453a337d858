import type { Session } from "@stellwerk/client";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo } from "react";
import { Button } from "../../parts/Button";
import { EmptyState } from "../../parts/EmptyState";
import { Icon } from "../../parts/Icon";
import { useTexts } from "../../texts";
import { useEnd } from "./end";
import { type Item, itemsOf } from "./items";
import { Row } from "./Row";
import type { Sending } from "./sending";

interface Props {
  sid: string;
  session: Session;
  /** All that was stored has come. */
  isWhole: boolean;
  isPast: boolean;
  sending: Sending;
}

/** What was said, from top to bottom. Only what can be seen is built; at the end it follows what is written. */
export function Conversation({ sid, session, isWhole, isPast, sending }: Props) {
  const { chat, parts } = useTexts();
  const waiting = isPast ? null : sending.waiting;
  const items = useMemo(() => (isWhole ? itemsOf(session, waiting) : []), [session, isWhole, waiting]);
  const { box, isAway, look, toEnd } = useEnd(waiting?.key);
  const list = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    getItemKey: (index) => items[index]?.key ?? index,
    estimateSize: () => 120,
    overscan: 4,
    gap: 16,
    paddingStart: 24,
    paddingEnd: 24,
  });
  return (
    <div className="relative min-h-0 flex-1">
      <section
        ref={box}
        aria-label={chat.conversation}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
        tabIndex={0}
        onScroll={look}
        className="h-full overflow-y-auto -outline-offset-2 [overflow-anchor:none]"
      >
        {!isWhole && <p className="sr-only">{parts.loading}</p>}
        {isWhole && !items.length && (
          <EmptyState icon="chat" title={chat.nothingSaid}>
            <p>{chat.nothingSaidHint}</p>
          </EmptyState>
        )}
        <ol className="relative mx-auto w-full max-w-3xl" style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map(({ index, key, start }) => (
            <li
              key={key}
              ref={list.measureElement}
              data-index={index}
              aria-posinset={index + 1}
              aria-setsize={items.length}
              className="absolute inset-x-0 top-0 px-4 sm:px-6"
              style={{ transform: `translateY(${start}px)` }}
            >
              {items[index] && (
                <Row sid={sid} session={session} item={items[index]} isPast={isPast} sending={sending} />
              )}
            </li>
          ))}
        </ol>
      </section>
      {isAway && (
        <div className="absolute inset-x-0 bottom-3 flex justify-center">
          <Button className="rounded-full shadow-float" onClick={toEnd}>
            <Icon name="down" size={16} /> {chat.toEnd}
          </Button>
        </div>
      )}
      <Announcer items={items} />
    </div>
  );
}

/** Says to those who cannot see it what has changed; not each word, as nobody could listen to that. */
function Announcer({ items }: { items: readonly Item[] }) {
  const { chat } = useTexts();
  const last = items.at(-1);
  const text =
    last?.kind === "working"
      ? chat.writing
      : last?.kind === "question" && last.question.state === "open"
        ? chat.asksYou
        : last?.kind === "message" && last.entry.role === "assistant"
          ? chat.answered
          : "";
  return (
    <p role="status" className="sr-only">
      {text}
    </p>
  );
}
