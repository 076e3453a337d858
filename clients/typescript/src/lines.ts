/** Lines out of bytes that the network cuts where it likes: inside a line, inside a character, between CR and LF. */
export class LineBuffer {
  readonly #decoder = new TextDecoder();
  #pieces: string[] = [];
  #afterReturn = false;

  /** The lines that these bytes end. The rest waits; it is joined only once, however many pieces it comes in. */
  push(bytes: Uint8Array): string[] {
    return this.#split(this.#decoder.decode(bytes, { stream: true }));
  }

  /** What is left when no more bytes come: a last line without an end, if there is one. */
  end(): string[] {
    const lines = this.#split(this.#decoder.decode());
    const rest = this.#taken("");
    return rest === "" ? lines : [...lines, rest];
  }

  #split(text: string): string[] {
    const lines: string[] = [];
    let start = this.#afterReturn && text.startsWith("\n") ? 1 : 0;
    if (text !== "") this.#afterReturn = text.endsWith("\r");
    for (const { index, 0: ending } of text.matchAll(/\r\n|\n|\r/g)) {
      if (index < start) continue;
      lines.push(this.#taken(text.slice(start, index)));
      start = index + ending.length;
    }
    if (start < text.length) this.#pieces.push(text.slice(start));
    return lines;
  }

  #taken(last: string): string {
    if (this.#pieces.length === 0) return last;
    const line = this.#pieces.join("") + last;
    this.#pieces = [];
    return line;
  }
}

/** The lines of a stream as they come; the stream is let go when the reader stops. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const buffer = new LineBuffer();
  const reader = stream.getReader();
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) yield* buffer.push(piece.value);
    yield* buffer.end();
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** The objects of an NDJSON stream. Blanks between them are heartbeats. */
export async function* objectsOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<unknown, void, undefined> {
  for await (const line of linesOf(stream)) {
    if (line.trim() !== "") yield JSON.parse(line);
  }
}
