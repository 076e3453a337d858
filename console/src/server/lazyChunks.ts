import { stored } from "../state/stored";
import { address, unreachable } from "./request";
import { pause } from "./timeouts";

/** A chunk is missing although the server responds: the console was rebuilt since this page was loaded. */
export class Outdated extends Error {
  constructor(cause: unknown) {
    super(`not in this build: ${cause}`, { cause });
  }

  /** Reloading the page did not help. */
  get isTried(): boolean {
    return triedBefore === this.message;
  }

  loadAgain(): void {
    tried.set(this.message);
    location.reload();
  }
}

const tried = stored("outdated", () => sessionStorage);
/** The console's version when this page was loaded. */
const triedBefore = tried.get();

/** Whether the console can be loaded now. */
export async function isThere(): Promise<boolean> {
  const answer = await fetch(address("/"), { cache: "no-store" }).catch(() => null);
  return answer?.ok ?? false;
}

/** A page of the console, loaded on navigation. */
export function chunk<T>(load: () => Promise<T>): () => Promise<T> {
  return () =>
    load().catch(async (error: unknown) => {
      throw (await isThere()) ? new Outdated(error) : unreachable();
    });
}

/** An optional part of a page, loaded when the server is available. */
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
