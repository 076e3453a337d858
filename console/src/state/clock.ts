import { useEffect, useReducer } from "react";

const MINUTE = 60_000;

/** The current time in seconds; rerenders its users once a minute. */
export function useNow(): number {
  const [, tick] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const timer = setInterval(tick, MINUTE);
    return () => clearInterval(timer);
  }, []);
  return Date.now() / 1000;
}
