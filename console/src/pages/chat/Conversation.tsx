import type { Session } from "@stellwerk/client";
import { defaultRangeExtractor, type Range, useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useMemo, useRef } from "react";
import { Button } from "../../parts/Button";
import { EmptyState } from "../../parts/EmptyState";
import { Icon } from "../../parts/Icon";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import { type Item, itemsOf } from "./items";
import { Row } from "./Row";
import type { Sending } from "./sending";
import { useStickToEnd } from "./stickToEnd";

interface Props {
  sid: string;
  session: Session;
  /** The description of its system. */
  about: string;
  /** Whether a message may be a text; if not, there is a form. */
  takesText: boolean;
  /** All stored events have arrived. */
  isWhole: boolean;
  isPast: boolean;
  sending: Sending;
}

/** The conversation. Renders only visible rows, and follows new text at the end. */
export function Conversation({ sid, session, about, takesText, isWhole, isPast, sending }: Props) {
  const { chat, parts } = useTexts();
  const waiting = isPast ? undefined : sending.waiting;
  const items = useMemo(() => (isWhole ? itemsOf(session, waiting) : []), [session, isWhole, waiting]);
  const { box, isAway, look, toEnd } = useStickToEnd(waiting?.at(-1)?.key);
  const keys = useKeys(items);
  const mayWrite = useScope("run");
  const list = useVirtualizer({
    count: items.length,
    getScrollElement: () => box.current,
    getItemKey: useCallback((index: number) => keys[index] ?? index, [keys]),
    rangeExtractor: (range) => withQuestions(items, range),
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
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be focusable
        tabIndex={0}
        onScroll={look}
        className="h-full overflow-y-auto -outline-offset-2 [overflow-anchor:none]"
      >
        {!isWhole && <p className="sr-only">{parts.loading}</p>}
        {isWhole && !items.length && (
          <EmptyState icon="chat" title={chat.empty}>
            {about && <p className="whitespace-pre-line">{about}</p>}
            {mayWrite && <p className="text-sm">{takesText ? chat.emptyHint : chat.emptyHintFields}</p>}
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
      {isAway && items.length > 0 && (
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

/** Returns the same list while its content is equal; a new one would measure every row again at each token. */
function useKeys(items: readonly Item[]): readonly string[] {
  const known = useRef<readonly string[]>([]);
  const isSame = items.length === known.current.length && items.every(({ key }, at) => key === known.current[at]);
  if (!isSame) known.current = items.map(({ key }) => key);
  return known.current;
}

/** Open questions stay mounted, so that a reader who scrolls away keeps what they typed. */
function withQuestions(items: readonly Item[], range: Range): number[] {
  const open = items.flatMap((item, index) =>
    item.kind === "question" && item.question.state === "open" ? index : [],
  );
  return [...new Set([...defaultRangeExtractor(range), ...open])].sort((one, other) => one - other);
}

/** Announces changes to screen readers; not every token, which would be too much to listen to. */
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
