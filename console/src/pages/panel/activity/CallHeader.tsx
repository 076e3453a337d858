import type { Call } from "@stellwerk/client";
import { memo } from "react";
import { Badge } from "../../../parts/Badge";
import { classes } from "../../../parts/classes";
import { Icon } from "../../../parts/Icon";
import { useTexts } from "../../../texts";
import { duration, number } from "../../../texts/figures";
import { ICONS, indent, LANES, news, TONES } from "./appearance";
import { RowHead } from "./RowHead";
import { Stripes } from "./Stripes";
import type { State } from "./states";

interface Props {
  sid: string;
  call: Call;
  depth: number;
  open: boolean;
  state: State;
  /** The agent it belongs to; null for the orchestrator. */
  lane: string | null;
  colour: number;
  stripes: string;
  onOpen: (key: string, open: boolean) => void;
}

/** A call in one line: kind, name, agent, status and duration. */
export const CallHeader = memo(function CallHeader(props: Props) {
  const { sid, call, state, depth, open, lane, colour, stripes, onOpen } = props;
  const { panel } = useTexts();
  const tint = lane === null ? "text-muted" : LANES[colour];
  const name = call.kind === "agent" && lane !== null ? lane : call.name;
  return (
    <div className="group relative pr-3 hover:bg-hover" style={{ paddingLeft: indent(depth) }}>
      <Stripes of={stripes} />
      <RowHead sid={sid} id={call.id} open={open} onOpen={onOpen} at={call.startPosition} of={name}>
        <span className={tint}>
          <Icon name={ICONS[call.kind]} size={16} />
        </span>
        <span className="sr-only">
          {panel.level(depth + 1)}, {panel.kinds[call.kind]}
        </span>
        <span className={classes("truncate", call.kind === "agent" && classes("font-semibold", tint))}>
          {(call.kind === "tool" && call.title) || name}
        </span>
        {call.kind !== "agent" && lane !== null && <span className={classes("truncate text-xs", tint)}>{lane}</span>}
        <Figures call={call} state={state} />
      </RowHead>
      <News call={call} />
    </div>
  );
});

function Figures({ call, state }: Pick<Props, "call" | "state">) {
  const { panel, language } = useTexts();
  const used = call.kind === "model" ? call.usage : undefined;
  const tokens = (used?.input_tokens ?? 0) + (used?.output_tokens ?? 0);
  return (
    <span className="ml-auto flex shrink-0 items-center gap-2 text-xs text-muted tabular-nums">
      {tokens > 0 && <span>{panel.tokens(number(tokens, language))}</span>}
      {call.duration !== undefined && state !== "rejected" && <span>{duration(call.duration, language)}</span>}
      {state === "ok" ? (
        <span className="text-good" title={panel.states.ok}>
          <Icon name="check" size={15} />
          <span className="sr-only">{panel.states.ok}</span>
        </span>
      ) : (
        <Badge tone={TONES[state]}>
          {state === "running" && <span aria-hidden className="size-1.5 animate-pulse rounded-full bg-current" />}
          {panel.states[state]}
        </Badge>
      )}
    </span>
  );
}

function News({ call }: { call: Call }) {
  const { panel } = useTexts();
  const latest = news(call);
  if (latest === null) return null;
  return (
    <p className="truncate pb-1.5 pl-9 font-mono text-xs text-muted">
      {latest.tool && <span className="font-sans">{panel.writes(latest.tool)}: </span>}
      {latest.text}
    </p>
  );
}
