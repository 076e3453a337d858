import { useMemo, useState } from "react";
import { classes } from "../../parts/classes";
import type { System } from "../../server/types";
import { useMedia } from "../../state/media";
import { useTexts } from "../../texts";
import { type Box, cut, layout, tree } from "./layout";

/** Agents, models and tools as a diagram; hovering highlights connections. */
export function SystemPicture({ system }: { system: System }) {
  const { systems: words } = useTexts();
  const narrow = useMedia("(width < 40rem)");
  const picture = useMemo(() => (narrow ? tree(system) : layout(system)), [system, narrow]);
  const [chosen, setChosen] = useState<string | null>(null);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be focusable
    <section aria-label={words.picture} tabIndex={0} className="overflow-x-auto rounded-lg">
      <svg
        role="img"
        aria-label={words.pictureLabel(system.id, system.agents.length, system.tools.length)}
        viewBox={`0 0 ${picture.width} ${picture.height}`}
        width={picture.width}
        className="mx-auto block h-auto max-w-full sm:min-w-md"
      >
        <g fill="none" strokeWidth={1.25} className="stroke-line-strong opacity-50">
          {picture.lines.map(({ from, to, path }) => (
            <path key={`${from} ${to}`} d={path} />
          ))}
        </g>
        <g fill="none" strokeWidth={2} className="stroke-accent">
          {picture.lines.map(
            ({ from, to, path }) => (from === chosen || to === chosen) && <path key={`${from} ${to}`} d={path} />,
          )}
        </g>
        {picture.boxes.map((box) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: an addition only; the list below has the same content
          <g key={box.id} onMouseEnter={() => setChosen(box.id)} onMouseLeave={() => setChosen(null)}>
            <Node box={box} first={box.id === `agent ${system.orchestrator}`} chosen={box.id === chosen} />
          </g>
        ))}
      </svg>
    </section>
  );
}

function Node({ box, first, chosen }: { box: Box; first: boolean; chosen: boolean }) {
  const middle = box.y + box.height / 2;
  const agent = box.kind === "agent";
  return (
    <>
      <title>{box.note ? `${box.title} · ${box.note}` : box.title}</title>
      <rect
        {...{ x: box.x, y: box.y, width: box.width, height: box.height, rx: agent ? 12 : 17 }}
        strokeWidth={chosen || first ? 1.75 : 1.25}
        className={classes(
          agent ? (first ? "fill-accent-soft" : "fill-surface") : "fill-sunken",
          chosen || first ? "stroke-accent" : agent ? "stroke-line-strong" : "stroke-line",
        )}
      />
      <text
        x={box.x + 16}
        y={box.note ? middle - 4 : middle + 4.5}
        className={agent ? "fill-ink text-sm font-semibold" : "fill-ink font-mono text-xs"}
      >
        {cut(box.title, Math.floor((box.width - 32) / (agent ? 8.5 : 7.3)))}
      </text>
      {box.note && (
        <text x={box.x + 16} y={middle + 14} className="fill-muted text-xs">
          {cut(box.note, Math.floor((box.width - 32) / 7))}
        </text>
      )}
    </>
  );
}
