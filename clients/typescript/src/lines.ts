/** Splits bytes into lines, wherever the network cuts them: inside a line, inside a character, between CR and LF. */
export class LineBuffer {
  readonly #decoder = new TextDecoder();
  #pieces: string[] = [];
  #afterReturn = false;

  /** The lines completed by these bytes. The rest is buffered and joined once, when its line ends. */
  push(bytes: Uint8Array): string[] {
    return this.#split(this.#decoder.decode(bytes, { stream: true }));
  }

  /** The last line, if the stream ended without a line break. */
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

/** The lines of a stream as they arrive; the stream is cancelled when the reader stops. */
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

/** The objects of an NDJSON stream. Blank lines are heartbeats. */
export async function* objectsOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<unknown, void, undefined> {
  for await (const line of linesOf(stream)) {
    if (line.trim() !== "") yield JSON.parse(line);
  }
}
