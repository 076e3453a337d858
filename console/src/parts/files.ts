import { queryOptions } from "@tanstack/react-query";
import { requestBlob } from "../server/request";

/** A file on the server. */
export interface FileRef {
  readonly name: string;
  readonly mime: string;
  readonly size?: number;
  /** Its path on the server. */
  readonly path: string;
  /** The version of a file that changes. */
  readonly version?: number;
}

export type PreviewKind = "image" | "markdown" | "json" | "text";

/** The size limit of a preview; larger files can only be downloaded. */
const LIMITS: Record<PreviewKind, number> = { image: 8_000_000, markdown: 400_000, json: 1_000_000, text: 1_000_000 };
/** Without SVG, which is shown as text. */
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]);
const TEXTS = /^text\/|[/+](json|xml|yaml|x-yaml|toml|javascript|sql|x-sh|csv)$/;

/** How a file can be previewed; null if it can only be downloaded. */
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

/** By digest, under its name here. */
export function storedFile(documentId: string, name: string, mime: string, size?: number): FileRef {
  const path = `/files/${encodeURIComponent(documentId)}?${new URLSearchParams({ name })}`;
  return { name, mime, size, path };
}

/**
 * The text of a file, or an image as a data URL, which the CSP allows; null if it turns out
 * to be too large for a preview.
 */
export const contentOf = (file: FileRef, kind: PreviewKind) =>
  queryOptions({
    queryKey: ["file", file.path, file.version ?? 0, kind],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }) => {
      const blob = await requestBlob(file.path, { signal });
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

/** Downloads a file with the key, which a plain link could not send. */
export async function download({ path, name }: FileRef): Promise<void> {
  save(await requestBlob(path), name);
}

/** Offers data to the browser as a download. */
export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The URL must stay valid until the browser has read it.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
