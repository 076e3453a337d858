import { linesOf } from "./lines.js";

export interface ServerSentEvent {
  /** The last id, of this event or of an earlier one. */
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

/** Parses server-sent events line by line, as the HTML standard defines. */
export class SseReader {
  #id = "";
  #event = "";
  #data: string[] = [];

  /** The event that this line completes, if any. */
  push(line: string): ServerSentEvent | undefined {
    if (line === "") return this.#dispatched();
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return undefined;
  }

  #dispatched(): ServerSentEvent | undefined {
    const event = { id: this.#id, event: this.#event || "message", data: this.#data.join("\n") };
    const hasData = this.#data.length > 0;
    this.#event = "";
    this.#data = [];
    return hasData ? event : undefined;
  }
}

/** The events of a stream; an incomplete last event is dropped. */
export async function* eventsOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent, void, undefined> {
  const reader = new SseReader();
  let first = true;
  for await (const line of linesOf(stream)) {
    const event = reader.push(first ? line.replace(/^\uFEFF/, "") : line);
    first = false;
    if (event) yield event;
  }
}
