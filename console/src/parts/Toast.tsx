import { createContext, type ReactNode, useCallback, useContext, useEffect, useRef, useState } from "react";
import { pause } from "../server/timeouts";
import { whileVisible } from "../state/visible";
import { useTexts } from "../texts";
import { Button } from "./Button";
import { classes } from "./classes";
import { Icon } from "./Icon";

const SHOWN_FOR = 6_000;
/** Errors are shown longer, and disappear when the action succeeds. */
const BAD_FOR = 12_000;

interface Note {
  id: number;
  text: string;
  bad: boolean;
  /** Stays until closed. */
  kept: boolean;
}

const Say = createContext<(text: string, bad?: boolean | "kept") => void>(() => {});

/** Notes about actions without another place on the page. A note can be kept so that its content is not lost. */
export const useToast = () => useContext(Say);

export function Toasts({ children }: { children: ReactNode }) {
  const [notes, setNotes] = useState<readonly Note[]>([]);
  const next = useRef(0);
  const say = useCallback((text: string, bad: boolean | "kept" = false) => {
    const id = next.current++;
    const note = { id, text, bad: bad !== false, kept: bad === "kept" };
    setNotes((known) => {
      const others = known.filter((other) => other.kept || other.text !== text);
      const passing = others.filter(({ kept }) => !kept).slice(-2);
      return [...others.filter((other) => other.kept || passing.includes(other)), note];
    });
  }, []);
  const close = useCallback((id: number) => setNotes((known) => known.filter((note) => note.id !== id)), []);
  return (
    <Say value={say}>
      {children}
      <div
        aria-live="polite"
        // Over the top bar, next to its links, where it covers no content.
        className="pointer-events-none fixed inset-x-0 top-1 z-20 flex flex-col items-center gap-2 px-4 md:items-end md:pr-40"
      >
        {notes.map((note) => (
          <Shown key={note.id} note={note} onClose={close} />
        ))}
      </div>
    </Say>
  );
}

/** Closes by itself after a while, unless hovered or focused. */
function Shown({ note: { id, text, bad, kept }, onClose }: { note: Note; onClose: (id: number) => void }) {
  const { parts } = useTexts();
  const [held, setHeld] = useState(kept);
  useEffect(() => {
    if (held) return;
    return whileVisible(async (signal) => {
      await pause(bad ? BAD_FOR : SHOWN_FOR, signal);
      if (!signal.aborted) onClose(id);
    });
  }, [held, bad, id, onClose]);
  const hold = () => setHeld(true);
  const release = () => setHeld(kept);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it only stays open while hovered or focused
    <div
      role={bad ? "alert" : undefined}
      onPointerEnter={hold}
      onPointerLeave={release}
      onFocus={hold}
      onBlur={release}
      className={classes(
        "pointer-events-auto flex max-w-lg items-center gap-2.5 rounded-xl border border-line bg-raised py-1.5 pr-1.5 pl-4 text-sm shadow-float",
        bad && "text-bad",
      )}
    >
      <Icon name={bad ? "alert" : "check"} />
      <p className="min-w-0 break-words">{text}</p>
      <Button look="quiet" square aria-label={parts.close} title={parts.close} onClick={() => onClose(id)}>
        <Icon name="close" size={16} />
      </Button>
    </div>
  );
}
