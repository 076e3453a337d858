import { describe, expect, test } from "vitest";
import { LineBuffer, objectsOf } from "./lines.js";
import { eventsOf, type ServerSentEvent } from "./sse.js";

const OBJECTS = [{ text: "Grüße, 世界 🚂" }, { text: "a\r\nb\u2028c" }, { n: [1, 2] }, { text: "Schluss" }];
const bytes = (text: string) => new TextEncoder().encode(text);

function streamOf(pieces: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(control) {
      for (const piece of pieces) control.enqueue(piece);
      control.close();
    },
  });
}

/** All cuts into two pieces, and into pieces of each small size. */
function* cuts(whole: Uint8Array): Generator<Uint8Array[]> {
  for (let at = 0; at <= whole.length; at++) yield [whole.slice(0, at), whole.slice(at)];
  for (let size = 1; size <= 7; size++) {
    const count = Math.ceil(whole.length / size);
    yield Array.from({ length: count }, (_, index) => whole.slice(index * size, (index + 1) * size));
  }
}

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

describe.each(["\n", "\r\n", "\r"])("with %j at the end of a line", (ending) => {
  test("NDJSON is parsed however it is cut; blank lines are heartbeats", async () => {
    const text = OBJECTS.map((one) => ` ${JSON.stringify(one)}${ending}${ending}`).join("");
    for (const pieces of cuts(bytes(text))) expect(await all(objectsOf(streamOf(pieces)))).toEqual(OBJECTS);
  });

  test("server-sent events are parsed however they are cut", async () => {
    const frames = OBJECTS.map((one, index) => [`id: ${index + 1}`, `data: ${JSON.stringify(one)}`, ""].join(ending));
    const whole = bytes(`\uFEFF: ping${ending}${ending}${frames.join(ending)}${ending}: ping${ending}data: cut off`);
    const expected = OBJECTS.map((one, index) => ({ id: `${index + 1}`, event: "message", data: JSON.stringify(one) }));
    for (const pieces of cuts(whole)) expect(await all(eventsOf(streamOf(pieces)))).toEqual(expected);
  });
});

test("a last line without a line break is a line", () => {
  const buffer = new LineBuffer();
  expect(buffer.push(bytes("one\ntw"))).toEqual(["one"]);
  expect([...buffer.push(bytes("o")), ...buffer.end()]).toEqual(["two"]);
});

test("events may have several data lines, a name, and the previous id", async () => {
  const text = "id:7\nevent:note\ndata:a\ndata: b\ndata\n\ndata:c\n\nretry: 3\n\nid: x\0y\n";
  const expected: ServerSentEvent[] = [
    { id: "7", event: "note", data: "a\nb\n" },
    { id: "7", event: "message", data: "c" },
  ];
  expect(await all(eventsOf(streamOf([bytes(text)])))).toEqual(expected);
});

test("the stream is cancelled when the reader stops", async () => {
  let gone = false;
  const stream = new ReadableStream<Uint8Array>({
    start: (control) => control.enqueue(bytes('{"n":1}\n{"n":2}\n')),
    cancel: () => {
      gone = true;
    },
  });
  for await (const one of objectsOf(stream)) {
    expect(one).toEqual({ n: 1 });
    break;
  }
  expect(gone).toBe(true);
});
