import { type ReactNode, useEffect, useId, useRef } from "react";
import { useTexts } from "../texts";
import { Button } from "./Button";
import { classes } from "./classes";
import { Icon } from "./Icon";

const PLACES = {
  middle: "m-auto w-[min(28rem,calc(100vw-2rem))] rounded-2xl",
  left: "mr-auto h-dvh max-h-none w-[min(20rem,85vw)]",
  right: "ml-auto h-dvh max-h-none w-[min(32rem,100vw)] max-w-none",
};

interface Props {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  place?: keyof typeof PLACES;
}

/**
 * The browser's own dialog element: traps the focus, closes on Escape, and restores the focus.
 * The element with data-autofocus is focused first. (Radix' dialog writes a style element, which the CSP forbids.)
 */
export function Dialog({ open, onClose, title, children, place = "middle" }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  const { parts } = useTexts();
  useEffect(() => {
    if (!open) return ref.current?.close();
    ref.current?.showModal();
    ref.current?.querySelector<HTMLElement>("[data-autofocus]")?.focus();
  }, [open]);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape does the same
    <dialog
      ref={ref}
      aria-labelledby={id}
      onClose={onClose}
      onClick={(event) => event.target === event.currentTarget && onClose()}
      className={classes("bg-raised p-0 text-ink shadow-float", PLACES[place])}
    >
      {open && (
        <div className={classes("flex flex-col", place !== "middle" && "h-full")}>
          <header className="flex items-center justify-between gap-4 py-3 pr-3 pl-6">
            <h2 id={id} className="text-base font-semibold">
              {title}
            </h2>
            <Button look="quiet" square aria-label={parts.close} onClick={onClose}>
              <Icon name="close" />
            </Button>
          </header>
          <div className={place === "middle" ? "px-6 pb-6" : "min-h-0 flex-1 overflow-y-auto"}>{children}</div>
        </div>
      )}
    </dialog>
  );
}
