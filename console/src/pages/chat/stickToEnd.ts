import { useLayoutEffect, useRef, useState } from "react";

/** Within this distance the box stays scrolled to its end. */
const NEAR = 60;

/**
 * Keeps a box scrolled to its end as it grows, until the reader scrolls up, and again once they return to the end.
 * Sending a message (`said` changes) scrolls to the end.
 */
export function useStickToEnd(said: string | undefined) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const before = useRef({ top: 0, height: 0 });
  const [isAway, setAway] = useState(false);
  useLayoutEffect(() => {
    if (said !== undefined) follows.current = true;
  }, [said]);
  // Runs at each render, because new text and measured rows make the box grow. A reader who has scrolled up is released
  // here: the scroll event may arrive later.
  useLayoutEffect(() => {
    if (!box.current || !follows.current) return;
    const { scrollTop: top, scrollHeight: height, clientHeight } = box.current;
    if (top < before.current.top && height >= before.current.height && height - top - clientHeight > NEAR) return;
    box.current.scrollTo({ top: height });
    before.current = { top: box.current.scrollTop, height };
  });
  // Content opened below makes the box smaller.
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
    // A growing box scrolls up as well but stays at its end.
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
