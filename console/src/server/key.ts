import { stored, useStored } from "../state/stored";

/** The API key lives as long as the tab; it is never in an address. */
const key = stored("key", () => sessionStorage);
/** The dialog is open: "asked" by whoever sits there, or as the server has "refused"; "later": he has put it away. */
const wanted = stored("key-wanted", null);

export const currentKey = (): string | null => key.get();
export const useKey = (): string | null => useStored(key);
export const useHasKey = (): boolean => useKey() !== null;
export const useKeyWanted = (): string | null => useStored(wanted);

/** The server said 401 to this key: another one is asked for, unless there is one already. */
export function keyRefused(refused: string | null): void {
  if (refused === key.get() && wanted.get() === null) wanted.set("refused");
}

export const askForKey = (): void => wanted.set("asked");
export const putKeyOff = (): void => wanted.set("later");

export function showKey(value: string): void {
  key.set(value);
  wanted.set(null);
}
