import { createContext, type ReactNode, useCallback, useContext, useEffect, useRef, useState } from "react";
import { pause } from "../server/pause";
import { whileVisible } from "../state/visible";
import { useTexts } from "../texts";
import { Button } from "./Button";
import { classes } from "./classes";
import { Icon } from "./Icon";

const SHOWN_FOR = 6_000;
/** What went wrong takes longer to read, and is no longer true when it was put right. */
const BAD_FOR = 12_000;

interface Note {
  id: number;
  text: string;
  bad: boolean;
  /** It stays until it is closed. */
  kept: boolean;
}

const Say = createContext<(text: string, bad?: boolean | "kept") => void>(() => {});

/** Says that something was done, or could not be, for what has no other place on the page; and keeps what would be lost. */
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
        // Over the bar on top, beside its links and switches: there it covers nothing of the page.
        className="pointer-events-none fixed inset-x-0 top-1 z-20 flex flex-col items-center gap-2 px-4 md:items-end md:pr-40"
      >
        {notes.map((note) => (
          <Shown key={note.id} note={note} onClose={close} />
        ))}
      </div>
    </Say>
  );
}

/** It goes by itself when it could be read, and nobody is at it. */
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
    // biome-ignore lint/a11y/noStaticElementInteractions: it does nothing but stay while somebody is at it
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
