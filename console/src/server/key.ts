import { stored, useStored } from "../state/stored";

/** The API key is kept for the tab and never appears in a URL. */
const key = stored("key", () => sessionStorage);
/** The dialog: opened by the user ("asked") or by a 401 ("refused"); "later": dismissed. */
const wanted = stored("key-wanted", null);

export const currentKey = (): string | null => key.get();
export const useKey = (): string | null => useStored(key);
export const useHasKey = (): boolean => useKey() !== null;
export const useKeyWanted = (): string | null => useStored(wanted);

/** After a 401 for this key: ask for another, unless it was already replaced. */
export function keyRefused(refused: string | null): void {
  if (refused === key.get() && wanted.get() === null) wanted.set("refused");
}

export const askForKey = (): void => wanted.set("asked");
export const putKeyOff = (): void => wanted.set("later");

export function showKey(value: string): void {
  key.set(value);
  wanted.set(null);
}
