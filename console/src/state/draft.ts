import type { RunParameters } from "@stellwerk/client";
import { useCallback, useMemo } from "react";
import { type Stored, stored, useStored } from "./stored";

export interface Attached {
  id: string;
  name: string;
}

/** The unsent message of a session. */
export interface Draft {
  text: string;
  files: readonly Attached[];
  /** For a graph. In the input box they are in a form, see `FormDraft`. */
  parameters?: RunParameters;
}

/** The forms next to the input box: their content as typed, or values that they are to show. */
export type FormDraft = { readonly typed: Readonly<Record<string, unknown>> } | { readonly given: RunParameters };

const NOTHING: Draft = { text: "", files: [] };

const places = new Map<string, Stored>();

function placeOf(name: string): Stored {
  const place = places.get(name) ?? stored(name, () => sessionStorage);
  places.set(name, place);
  return place;
}

/** Kept for the tab, across reloads; null if there is none. */
function useKept<T>(name: string): [T | null, (value: T | null) => void] {
  const place = placeOf(name);
  const text = useStored(place);
  const value = useMemo(() => parsed<T>(text), [text]);
  return [value, useCallback((next: T | null) => place.set(next === null ? null : JSON.stringify(next)), [place])];
}

function parsed<T>(text: string | null): T | null {
  try {
    return text === null ? null : (JSON.parse(text) as T);
  } catch {
    return null;
  }
}

export function useDraft(sid: string) {
  const [kept, setKept] = useKept<Draft>(`draft.${sid}`);
  return [kept ?? NOTHING, setKept] as const;
}

/** Adds a file to the current draft of a session, whatever page is open. */
export function attach(sid: string, file: Attached): void {
  const place = placeOf(`draft.${sid}`);
  const draft = parsed<Draft>(place.get()) ?? NOTHING;
  const others = draft.files.filter(({ id }) => id !== file.id);
  place.set(JSON.stringify({ ...draft, files: [...others, file] }));
}

/** Puts withdrawn messages back into the draft, before its current text. */
export function giveBack(sid: string, said: readonly Draft[]): void {
  if (said.length === 0) return;
  const place = placeOf(`draft.${sid}`);
  const drafts = [...said, parsed<Draft>(place.get()) ?? NOTHING];
  const text = drafts
    .map((draft) => draft.text)
    .filter(Boolean)
    .join("\n");
  const files = new Map(drafts.flatMap((draft) => draft.files).map((file) => [file.id, file]));
  place.set(JSON.stringify({ text, files: [...files.values()] }));
  const given = said.findLast(({ parameters }) => parameters)?.parameters;
  if (given) placeOf(`form.${sid}`).set(JSON.stringify({ given } satisfies FormDraft));
}

/** The forms of a session's next message; null if nothing was typed yet. They keep what was sent last. */
export const useFormDraft = (sid: string) => useKept<FormDraft>(`form.${sid}`);

/** Clears the draft if it still has this text. */
export function take(sid: string, text: string): Draft | null {
  const place = placeOf(`draft.${sid}`);
  const draft = parsed<Draft>(place.get()) ?? NOTHING;
  if (draft.text !== text) return null;
  place.set(null);
  return draft;
}

/** The unregistered changes to an agent system; null if there are none. */
export const useWritten = (system: string) => useKept<string>(`system.${system}`);
