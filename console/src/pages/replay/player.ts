import { useCallback, useEffect, useRef, useState } from "react";
import type { Tape } from "./tape";

export const SPEEDS = [1, 2, 5, 10, 50] as const;
export type Speed = (typeof SPEEDS)[number];

export interface Player {
  /** The number of envelopes shown; null: now. */
  readonly index: number | null;
  readonly playing: boolean;
  readonly speed: Speed;
  /** Stays there, even at the end. */
  readonly stay: (index: number) => void;
  /** Moves there; the end means now. */
  readonly move: (index: number) => void;
  readonly toggle: () => void;
  readonly setSpeed: (speed: Speed) => void;
  readonly now: () => void;
}

/** Milliseconds: a hidden page continues where it was and does not jump. */
const LONGEST_STEP = 250;

/** The current position on a tape, and the clock that moves it. */
export function usePlayer(tape: Tape): Player {
  const [index, setIndex] = useState<number | null>(null);
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState<Speed>(1);
  const time = useRef(0);

  const stay = useCallback(
    (to: number) => {
      const place = Math.max(0, Math.min(to, tape.length));
      time.current = tape.time(place);
      setIndex(place);
    },
    [tape],
  );
  const now = useCallback(() => {
    setPlaying(false);
    setIndex(null);
  }, []);
  const move = useCallback((to: number) => (to >= tape.length ? now() : stay(to)), [tape, now, stay]);
  const toggle = useCallback(() => {
    if (index === null) stay(0);
    setPlaying((before) => !before);
  }, [index, stay]);

  useEffect(() => {
    if (!playing) return;
    let before = performance.now();
    let frame = requestAnimationFrame(function turn(at) {
      time.current += (Math.min(LONGEST_STEP, Math.max(0, at - before)) / 1000) * speed;
      before = at;
      const next = tape.indexAt(time.current);
      if (next >= tape.length) return now();
      setIndex(next);
      frame = requestAnimationFrame(turn);
    });
    return () => cancelAnimationFrame(frame);
  }, [tape, playing, speed, now]);

  return { index, playing, speed, stay, move, toggle, setSpeed, now };
}
