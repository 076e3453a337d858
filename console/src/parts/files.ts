import { queryOptions } from "@tanstack/react-query";
import { askBlob } from "../server/ask";

/** A file that the server has. */
export interface FileRef {
  readonly name: string;
  readonly mime: string;
  readonly size?: number;
  /** Where it is, below the server's address. */
  readonly path: string;
  /** Of a file that changes. */
  readonly version?: number;
}

export type PreviewKind = "image" | "markdown" | "json" | "text";

/** As much as can be looked at: a larger file is for downloading. */
const LIMITS: Record<PreviewKind, number> = { image: 8_000_000, markdown: 400_000, json: 1_000_000, text: 1_000_000 };
/** No SVG among them: it is shown as the text that it is. */
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]);
const TEXTS = /^text\/|[/+](json|xml|yaml|x-yaml|toml|javascript|sql|x-sh|csv)$/;

/** How a file can be looked at here; null if it can only be downloaded. */
export function previewOf({ name, mime, size = 0 }: FileRef): PreviewKind | null {
  const kind = kindOf(mime.split(";")[0] ?? "", name.toLowerCase());
  return kind !== null && fits(kind, size) ? kind : null;
}

const fits = (kind: PreviewKind, size: number): boolean => size <= LIMITS[kind];

function kindOf(mime: string, name: string): PreviewKind | null {
  if (IMAGES.has(mime)) return "image";
  if (mime === "text/markdown" || (mime === "text/plain" && /\.(md|markdown)$/.test(name))) return "markdown";
  if (/[/+]json$/.test(mime)) return "json";
  return TEXTS.test(mime) || mime === "image/svg+xml" ? "text" : null;
}

/** By the digest of its bytes, under the name that it has here. */
export function storedFile(documentId: string, name: string, mime: string, size?: number): FileRef {
  const path = `/files/${encodeURIComponent(documentId)}?${new URLSearchParams({ name })}`;
  return { name, mime, size, path };
}

/**
 * The text of a file, or an image as an address that the policy of the page lets an image have; null if it turns out
 * to be too large to be looked at.
 */
export const contentOf = (file: FileRef, kind: PreviewKind) =>
  queryOptions({
    queryKey: ["file", file.path, file.version ?? 0, kind],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }) => {
      const blob = await askBlob(file.path, { signal });
      if (!fits(kind, blob.size)) return null;
      return kind === "image" ? addressOf(new Blob([blob], { type: file.mime })) : blob.text();
    },
  });

function addressOf(image: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(image);
  });
}

/** Fetched with the key, which a link could not send; then the browser is given it. */
export async function download({ path, name }: FileRef): Promise<void> {
  save(await askBlob(path), name);
}

/** Gives something to the browser as a download. */
export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // A browser that has only just begun to read it must still find it.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
