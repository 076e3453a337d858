import { useEffect, useReducer } from "react";

const MINUTE = 60_000;

/** What time it is, in seconds; whoever asks is drawn anew each minute. */
export function useNow(): number {
  const [, tick] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const timer = setInterval(tick, MINUTE);
    return () => clearInterval(timer);
  }, []);
  return Date.now() / 1000;
}
