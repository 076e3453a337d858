/**
 * Does something for as long as the page can be seen. A hidden page holds no connection: a browser has six for a
 * server, and tabs in the background would take them all. Gives what ends it.
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
