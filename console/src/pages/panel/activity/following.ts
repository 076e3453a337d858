import { useCallback, useEffect, useRef } from "react";

const NEAR = 48;

/** Whoever is at the end of a list stays there when it grows, until they look elsewhere. */
export function useFollowing(scroller: HTMLElement | null, height: number) {
  const following = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is the height whose change matters
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
