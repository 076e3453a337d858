import { useLayoutEffect, useRef, useState } from "react";

/** As near to the end, one wants to stay there. */
const NEAR = 60;

/**
 * Keeps a box at its end as it grows, until its reader scrolls up; then it stays where he reads, until he comes back.
 * Whoever says something (`said` changes) wants to see it.
 */
export function useEnd(said: string | undefined) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const before = useRef({ top: 0, height: 0 });
  const [isAway, setAway] = useState(false);
  useLayoutEffect(() => {
    if (said !== undefined) follows.current = true;
  }, [said]);
  // At each drawing: what is written, and what is measured, makes it grow. Whoever has scrolled up since is let go
  // here already: the event that tells of it may come after.
  useLayoutEffect(() => {
    if (!box.current || !follows.current) return;
    const { scrollTop: top, scrollHeight: height, clientHeight } = box.current;
    if (top < before.current.top && height >= before.current.height && height - top - clientHeight > NEAR) return;
    box.current.scrollTo({ top: height });
    before.current = { top: box.current.scrollTop, height };
  });
  // And what is opened below it makes it smaller.
  useLayoutEffect(() => {
    const watching = new ResizeObserver(() => {
      if (follows.current) box.current?.scrollTo({ top: box.current.scrollHeight });
    });
    if (box.current) watching.observe(box.current);
    return () => watching.disconnect();
  }, []);
  const look = () => {
    if (!box.current) return;
    const { scrollTop: top, scrollHeight: height, clientHeight } = box.current;
    const left = height - top - clientHeight;
    // A box that grows moves up as well, but stays at its end.
    if (top < before.current.top && height >= before.current.height && left > 1) follows.current = false;
    else if (left <= NEAR) follows.current = true;
    before.current = { top, height };
    setAway(!follows.current && left > NEAR);
  };
  const toEnd = () => {
    follows.current = true;
    setAway(false);
    box.current?.scrollTo({ top: box.current.scrollHeight });
  };
  return { box, isAway, look, toEnd };
}
