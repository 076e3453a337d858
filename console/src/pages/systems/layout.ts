import type { Agent, System } from "../../server/types";

export interface Box {
  id: string;
  kind: "agent" | "tool";
  title: string;
  note: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Line {
  from: string;
  to: string;
  path: string;
}

export interface Picture {
  boxes: Box[];
  lines: Line[];
  width: number;
  height: number;
}

const AGENT = { width: 232, height: 58, below: 22 };
const TOOL = { width: 276, height: 34, below: 12 };
const INDENT = 32;
const ACROSS = 132;
const MARGIN = 8;

/** Agents on the left, callees below and indented; tools on the right; lines to everything an agent may use. */
export function layout(system: System): Picture {
  const agents = inOrder(system);
  const tools = [...new Set(agents.flatMap(({ agent }) => agent.tools ?? []))];
  const deepest = Math.max(0, ...agents.map(({ depth }) => depth));
  const edge = MARGIN + AGENT.width + deepest * INDENT;
  const height = Math.max(tall(agents.length, AGENT), tall(tools.length, TOOL));
  const rows = { agents: starts(agents.length, AGENT, height), tools: starts(tools.length, TOOL, height) };
  const boxes: Box[] = [
    ...agents.map(({ agent, depth }, row): Box => {
      const x = MARGIN + depth * INDENT;
      const note = agent.model?.model ?? agent.graph ?? "";
      const size = { width: edge - x, height: AGENT.height };
      return { id: `agent ${agent.id}`, kind: "agent", title: agent.id, note, x, y: rows.agents(row), ...size };
    }),
    ...tools.map((name, row): Box => {
      const size = { width: TOOL.width, height: TOOL.height };
      return { id: `tool ${name}`, kind: "tool", title: name, note: "", x: edge + ACROSS, y: rows.tools(row), ...size };
    }),
  ];
  const width = edge + (tools.length ? ACROSS + TOOL.width : 0) + MARGIN;
  return { boxes, lines: linesOf(system, boxes), width, height: height + 2 * MARGIN };
}

const NARROW = 312;
const TREE = { indent: 20, step: 10, gap: 20 };

/** The layout for a narrow page: one column, each agent with its tools below it. */
export function tree(system: System): Picture {
  const boxes: Box[] = [];
  const lines: Line[] = [];
  let y = MARGIN;
  const placed = new Map<string, Box>();
  const put = (box: Omit<Box, "x" | "y" | "width" | "height">, depth: number, height: number): Box => {
    const x = MARGIN + depth * TREE.indent;
    const whole = { ...box, x, y, width: NARROW - MARGIN - x, height };
    boxes.push(whole);
    y += height + TREE.step;
    return whole;
  };
  for (const { agent, depth } of inOrder(system)) {
    if (boxes.length) y += TREE.gap - TREE.step;
    const note = agent.model?.model ?? agent.graph ?? "";
    const own = put({ id: `agent ${agent.id}`, kind: "agent", title: agent.id, note }, depth, AGENT.height);
    placed.set(agent.id, own);
    for (const name of agent.tools ?? []) {
      const box = put({ id: `${agent.id} tool ${name}`, kind: "tool", title: name, note: "" }, depth + 1, TOOL.height);
      lines.push({ from: own.id, to: box.id, path: elbow(own, box, TREE.indent) });
    }
  }
  for (const agent of system.agents)
    for (const other of agent.agents ?? []) {
      const [start, end] = [placed.get(agent.id), placed.get(other.id)];
      if (start && end && end.x > start.x)
        lines.push({ from: start.id, to: end.id, path: elbow(start, end, TREE.indent) });
    }
  return { boxes, lines, width: NARROW, height: y - TREE.step + MARGIN };
}

const tall = (count: number, { height, below }: typeof AGENT) => Math.max(0, count * (height + below) - below);

/** The offsets of so many boxes, centred together. */
function starts(count: number, size: typeof AGENT, height: number): (row: number) => number {
  const first = MARGIN + (height - tall(count, size)) / 2;
  return (row) => first + row * (size.height + size.below);
}

/** Each agent below its first caller; agents without a caller come last. */
function inOrder(system: System): { agent: Agent; depth: number }[] {
  const byId = new Map(system.agents.map((agent) => [agent.id, agent]));
  const found = new Map<string, { agent: Agent; depth: number }>();
  const visit = (id: string, depth: number) => {
    const agent = byId.get(id);
    if (!agent || found.has(id)) return;
    found.set(id, { agent, depth });
    for (const other of agent.agents ?? []) visit(other.id, depth + 1);
  };
  for (const id of [system.orchestrator, ...byId.keys()]) visit(id, 0);
  return [...found.values()];
}

function linesOf(system: System, boxes: readonly Box[]): Line[] {
  const placed = new Map(boxes.map((box) => [box.id, box]));
  const line = (from: string, to: string, draw: (start: Box, end: Box) => string): Line[] => {
    const [start, end] = [placed.get(from), placed.get(to)];
    return start && end ? [{ from, to, path: draw(start, end) }] : [];
  };
  return system.agents.flatMap((agent) => [
    ...(agent.agents ?? []).flatMap((other) =>
      line(`agent ${agent.id}`, `agent ${other.id}`, (start, end) => elbow(start, end)),
    ),
    ...(agent.tools ?? []).flatMap((tool) => line(`agent ${agent.id}`, `tool ${tool}`, curve)),
  ]);
}

function curve(start: Box, end: Box): string {
  const [x1, y1] = [start.x + start.width, start.y + start.height / 2];
  const [x2, y2] = [end.x, end.y + end.height / 2];
  const bend = (x2 - x1) / 2;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

/** Down from the caller, then to the right. */
function elbow(start: Box, end: Box, indent = INDENT): string {
  const x = start.x + indent / 2;
  return `M${x} ${start.y + start.height}V${end.y + end.height / 2}H${end.x}`;
}

/** Truncates a text to fit. */
export const cut = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length - 1)}…` : text;
