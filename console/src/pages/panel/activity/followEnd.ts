import { useCallback, useEffect, useRef } from "react";

const NEAR = 48;

/** Keeps a list scrolled to its end as it grows, until the reader scrolls away. */
export function useFollowEnd(scroller: HTMLElement | null, height: number) {
  const following = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs when the height changes
  useEffect(() => {
    if (following.current && scroller) scroller.scrollTop = scroller.scrollHeight;
  }, [scroller, height]);
  const look = useCallback(() => {
    if (scroller) following.current = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
  }, [scroller]);
  const leave = useCallback(() => {
    following.current = false;
  }, []);
  return { look, leave };
}
