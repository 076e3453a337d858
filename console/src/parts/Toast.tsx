import { createContext, type ReactNode, useCallback, useContext, useRef, useState } from "react";
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
    setNotes((known) => [...known.slice(-2), { id, text, bad }]);
    setTimeout(() => setNotes((known) => known.filter((note) => note.id !== id)), SHOWN_FOR);
  }, []);
  return (
    <Say value={say}>
      {children}
      <div
        aria-live="polite"
        className="pointer-events-none fixed inset-x-0 top-16 z-20 flex flex-col items-center gap-2 px-4"
      >
        {notes.map(({ id, text, bad }) => (
          <p
            key={id}
            className={classes(
              "pointer-events-auto flex max-w-lg items-center gap-2.5 rounded-xl border border-line bg-raised px-4 py-2.5 text-sm shadow-float",
              bad && "text-bad",
            )}
          >
            <Icon name={bad ? "alert" : "check"} /> {text}
          </p>
        ))}
      </div>
    </Say>
  );
}
