import type { Envelope } from "@stellwerk/client";
import { brief } from "../../parts/json";

const LONGEST = 300;

const made = new WeakMap<Envelope, string>();

/** An event in one line, without its type; cached, because an event may have megabytes. */
export function summaryOf(envelope: Envelope): string {
  const known = made.get(envelope);
  if (known !== undefined) return known;
  const summary = oneLine(textOf(envelope));
  made.set(envelope, summary);
  return summary;
}

function oneLine(text: string): string {
  const line = text.slice(0, 2 * LONGEST).replace(/\s+/g, " ");
  return text.length > 2 * LONGEST || line.length > LONGEST ? `${line.slice(0, LONGEST)} …` : line;
}

function textOf(envelope: Envelope): string {
  switch (envelope.type) {
    case "run_start":
      return `${envelope.payload.system} · ${envelope.payload.trigger} · ${envelope.payload.round}`;
    case "run_end":
      return joined(envelope.payload.status, envelope.payload.code ?? envelope.payload.reason);
    case "message":
      return `${envelope.payload.role}: ${envelope.payload.content.map((part) => (part.type === "text" ? part.text : part.filename)).join(" ")}`;
    case "llm_start":
      return joined(envelope.payload.model, envelope.payload.node);
    case "llm_token":
      return envelope.payload.text;
    case "llm_end":
      return joined(envelope.payload.status, envelope.payload.finish_reason);
    case "tool_start":
      return `${envelope.payload.tool_name} ${JSON.stringify(envelope.payload.args ?? {})}`;
    case "tool_update":
      return envelope.payload.text ?? JSON.stringify(envelope.payload.data) ?? "";
    case "tool_end":
      return joined(`${envelope.payload.tool_name} ${envelope.payload.status}`, envelope.payload.error?.message);
    case "ask_user":
      return envelope.payload.question;
    case "user_answer":
      return envelope.payload.text ?? JSON.stringify(envelope.payload.data) ?? "";
    case "state":
      return `${envelope.payload.name} · ${envelope.payload.version}`;
    case "document":
      return joined(envelope.payload.name, envelope.payload.action);
    case "log":
      return envelope.payload.message;
    case "warning":
    case "error":
      return `${envelope.payload.code}: ${envelope.payload.message}`;
    case "stop_request":
      return joined(envelope.payload.by, envelope.payload.reason);
    case "subgraph_checkpoint":
    case "subgraph_resume":
      return envelope.payload.node;
    case "update":
      return joined(envelope.payload.node, envelope.payload.by);
    default:
      return unknownType(envelope);
  }
}

/** A type of a newer server: a compile-time error, with a generic summary at run time. */
function unknownType(envelope: never): string {
  return brief((envelope as Envelope).payload);
}

function joined(...parts: readonly (string | undefined)[]): string {
  return parts.filter(Boolean).join(" · ");
}
