import { stored } from "../state/stored";
import { address, unreachable } from "./ask";
import { pause } from "./pause";

/** A part of the console is not there, though the server is: it was built anew since this page was loaded. */
export class Outdated extends Error {
  constructor(cause: unknown) {
    super(`not in this build: ${cause}`, { cause });
  }

  /** Loading the page again did not help. */
  get isTried(): boolean {
    return triedBefore === this.message;
  }

  loadAgain(): void {
    tried.set(this.message);
    location.reload();
  }
}

const tried = stored("outdated", () => sessionStorage);
/** As it was when this page was loaded. */
const triedBefore = tried.get();

/** Whether the console itself could be loaded now. */
export async function isThere(): Promise<boolean> {
  const answer = await fetch(address("/"), { cache: "no-store" }).catch(() => null);
  return answer?.ok ?? false;
}

/** A page of the console, fetched when somebody goes there. */
export function chunk<T>(load: () => Promise<T>): () => Promise<T> {
  return () =>
    load().catch(async (error: unknown) => {
      throw (await isThere()) ? new Outdated(error) : unreachable();
    });
}

/** A part of a page, which can do without it until the server is back. */
export function patient<T>(load: () => Promise<T>): () => Promise<T> {
  return async () => {
    for (let count = 0; ; count += 1) {
      try {
        return await load();
      } catch (error) {
        if (await isThere()) throw new Outdated(error);
        await pause(Math.min(500 * 2 ** count, 5_000));
      }
    }
  };
}
