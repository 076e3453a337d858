import { createContext, type ReactNode, useCallback, useContext, useEffect, useRef, useState } from "react";
import { useTexts } from "../texts";
import { Button } from "./Button";
import { classes } from "./classes";
import { Icon } from "./Icon";

const SHOWN_FOR = 6_000;

interface Note {
  id: number;
  text: string;
  bad: boolean;
}

const Say = createContext<(text: string, bad?: boolean) => void>(() => {});

/** Says that something was done, or could not be; for what has no other place on the page. */
export const useToast = () => useContext(Say);

export function Toasts({ children }: { children: ReactNode }) {
  const [notes, setNotes] = useState<readonly Note[]>([]);
  const next = useRef(0);
  const say = useCallback((text: string, bad = false) => {
    const id = next.current++;
    setNotes((known) => [...known.filter((note) => note.text !== text).slice(-2), { id, text, bad }]);
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

/** It goes by itself when it was there to be read, unless somebody is at it; what went wrong stays until it is closed. */
function Shown({ note: { id, text, bad }, onClose }: { note: Note; onClose: (id: number) => void }) {
  const { parts } = useTexts();
  const [held, setHeld] = useState(bad);
  useEffect(() => {
    if (held) return;
    const timer = setTimeout(() => onClose(id), SHOWN_FOR);
    return () => clearTimeout(timer);
  }, [held, id, onClose]);
  const hold = () => setHeld(true);
  const release = () => setHeld(bad);
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
