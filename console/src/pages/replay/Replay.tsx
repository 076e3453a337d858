import type { Session } from "@stellwerk/client";
import { useCallback, useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { ErrorNote } from "../../parts/ErrorNote";
import { useClient } from "../../state/client";
import { useShortcuts } from "../../state/shortcuts";
import { useTexts } from "../../texts";
import { Axis } from "./Axis";
import { Controls } from "./Controls";
import { axisOf } from "./lanes";
import { usePlayer } from "./player";
import { LogReader } from "./reader";
import { Slider } from "./Slider";

interface Props {
  sid: string;
  live: Session;
  /** The position in the URL. */
  at: number | undefined;
  onShow: (session: Session | null) => void;
  onClose: () => void;
}

/** The replay: reads the log and shows the page after any of its events. */
export function Replay({ sid, live, at, onShow, onClose }: Props) {
  const { replay } = useTexts();
  const client = useClient();
  const reader = useMemo(() => new LogReader(client, sid), [client, sid]);
  const { length, position, problem } = useSyncExternalStore(reader.subscribe, reader.get);
  const { tape } = reader;
  useEffect(() => reader.want(live.position), [reader, live.position]);

  const player = usePlayer(tape);
  const { index, stay } = player;
  const arrived = at !== undefined && (position >= at || (position > 0 && position >= live.position));
  useEffect(() => {
    if (arrived) stay(tape.index(at));
  }, [arrived, at, stay, tape]);

  const choose = useCallback((to: number) => stay(tape.index(to)), [stay, tape]);

  const show = useRef(onShow);
  show.current = onShow;
  useEffect(() => show.current(index === null ? null : tape.session(index)), [index, tape]);
  useEffect(() => () => show.current(null), []);

  const place = index ?? length;
  const keys = {
    k: player.toggle,
    ",": () => player.move(place - 1),
    ".": () => player.move(place + 1),
    Escape: onClose,
  };
  useShortcuts(keys);
  const round = (index === null ? tape.end : tape.session(index)).round || 1;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a tape grows; its length is the dependency
  const axis = useMemo(() => axisOf(tape, round), [tape, length, round]);
  return (
    <section aria-label={replay.title} className="border-t border-line bg-surface px-4 py-3 sm:px-6">
      {problem !== undefined && <ErrorNote error={problem} onRetry={() => reader.retry()} />}
      <Controls sid={sid} tape={tape} player={player} length={length} onClose={onClose} />
      <Slider tape={tape} player={player} keys={keys} length={length} wanted={live.position} read={position} />
      {axis && <Axis axis={axis} time={tape.time(place)} onChoose={choose} />}
    </section>
  );
}
