import { useEffect, useRef } from "react";

/** Key sequences such as "g s" or "?", with their actions. */
export type Shortcuts = Readonly<Record<string, () => void>>;

/** The shortcut matched by the keys so far, and the keys to remember. */
export function typed(before: string, key: string, known: readonly string[]): { hit: string | null; rest: string } {
  const sequence = before ? `${before} ${key}` : key;
  if (known.includes(sequence)) return { hit: sequence, rest: "" };
  if (known.some((one) => one.startsWith(`${sequence} `))) return { hit: null, rest: sequence };
  return before ? typed("", key, known) : { hit: null, rest: "" };
}

/** Whether the focused element takes keyboard input. */
function writes(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable], dialog") !== null;
}

export function useShortcuts(shortcuts: Shortcuts): void {
  const current = useRef(shortcuts);
  current.current = shortcuts;
  useEffect(() => {
    let before = "";
    const listen = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || writes(event.target)) return;
      const { hit, rest } = typed(before, event.key, Object.keys(current.current));
      before = rest;
      if (hit === null) return;
      event.preventDefault();
      current.current[hit]?.();
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, []);
}
