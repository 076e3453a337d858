import { Button } from "../../parts/Button";
import { classes } from "../../parts/classes";
import { EventLink } from "../../parts/EventLink";
import { Icon, type IconName } from "../../parts/Icon";
import { useTexts } from "../../texts";
import { type Player, SPEEDS } from "./player";
import type { Tape } from "./tape";

interface Props {
  sid: string;
  tape: Tape;
  player: Player;
  length: number;
  onClose: () => void;
}

export function Controls({ sid, tape, player, length, onClose }: Props) {
  const { replay, parts } = useTexts();
  const { index, playing } = player;
  const place = index ?? length;
  const envelope = tape.envelope(place);
  return (
    <div className="flex flex-wrap items-center gap-1">
      <Key icon="stepBack" label={replay.previous} keys="," off={place === 0} onClick={() => player.move(place - 1)} />
      <Key
        icon={playing ? "pause" : "play"}
        label={playing ? replay.pauseIt : replay.play}
        keys="k"
        off={length === 0}
        onClick={player.toggle}
      />
      <Key icon="step" label={replay.next} keys="." off={index === null} onClick={() => player.move(place + 1)} />
      <Speeds player={player} />
      <div className="ml-auto flex items-center gap-1">
        {envelope && <EventLink sid={sid} position={envelope.position} />}
        <Button look="plain" aria-disabled={index === null} onClick={player.now}>
          {replay.now}
        </Button>
        <Button look="quiet" square aria-label={replay.close} title={parts.close} onClick={onClose}>
          <Icon name="close" />
        </Button>
      </div>
    </div>
  );
}

interface KeyProps {
  icon: IconName;
  label: string;
  /** The shortcut for the same action. */
  keys: string;
  /** Disabled but focusable, because it may have the focus. */
  off: boolean;
  onClick: () => void;
}

function Key({ icon, label, keys, off, onClick }: KeyProps) {
  return (
    <Button
      look="quiet"
      square
      aria-label={label}
      aria-keyshortcuts={keys}
      title={`${label} (${keys})`}
      aria-disabled={off}
      onClick={off ? undefined : onClick}
    >
      <Icon name={icon} />
    </Button>
  );
}

function Speeds({ player }: { player: Player }) {
  const { replay } = useTexts();
  return (
    <fieldset className="ml-2 flex rounded-lg border border-line">
      <legend className="sr-only">{replay.speed}</legend>
      {SPEEDS.map((speed) => (
        <button
          key={speed}
          type="button"
          aria-pressed={speed === player.speed}
          onClick={() => player.setSpeed(speed)}
          className={classes(
            "h-8 px-2 text-xs font-medium tabular-nums first:rounded-l-lg last:rounded-r-lg",
            speed === player.speed ? "bg-accent-soft text-accent-strong" : "text-muted hover:bg-hover",
          )}
        >
          {speed}×
        </button>
      ))}
    </fieldset>
  );
}
