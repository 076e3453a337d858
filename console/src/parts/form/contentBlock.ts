/** Files in a message's JSON: the server takes 128 KiB of input, config and context together. */
const LARGEST = 90_000;

const KINDS = ["image", "audio", "video"];

/** A content block with this file in it, as LangChain's messages have them; null if it is too large for a message. */
export async function contentBlock(file: File): Promise<string | null> {
  if (file.size > LARGEST) return null;
  const bytes = new Uint8Array(await file.arrayBuffer());
  const base64 = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  const mime = file.type || "application/octet-stream";
  const kind = KINDS.find((each) => mime.startsWith(`${each}/`)) ?? "file";
  return JSON.stringify({ type: kind, base64, mime_type: mime });
}

/** The text with a block at a place, with a comma where a list has neighbours of it. */
export function insertedAt(text: string, start: number, end: number, block: string): string {
  const before = text.slice(0, start);
  const after = text.slice(end);
  const left = /[}\]"\w]\s*$/.test(before) ? ", " : "";
  const right = /^\s*[{["\w-]/.test(after) ? ", " : "";
  return `${before}${left}${block}${right}${after}`;
}
