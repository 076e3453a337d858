/**
 * Runs something while the page is visible. A hidden page holds no connection: a browser allows six per server, and
 * background tabs would take them all. Returns a function that ends it.
 */
export function whileVisible(work: (signal: AbortSignal) => Promise<void>): () => void {
  let working: AbortController | undefined;
  const look = () => {
    if (document.hidden) {
      working?.abort();
      working = undefined;
    } else if (!working) {
      working = new AbortController();
      void work(working.signal);
    }
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    working?.abort();
  };
}
