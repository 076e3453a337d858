import { Problem, problemOf, type StoredFile } from "@stellwerk/client";
import { currentKey, keyRefused } from "./key";
import { address, headers, unreachable } from "./request";

interface UploadOptions {
  /** Progress from 0 to 1, which `fetch` does not report. */
  onProgress?: (part: number) => void;
  signal?: AbortSignal;
}

const underWay = new Set<XMLHttpRequest>();
/** Asks for confirmation before the page is left during an upload. */
const hold = (event: BeforeUnloadEvent) => event.preventDefault();

/** Uploads a file. */
export function upload(file: File, { onProgress, signal }: UploadOptions = {}): Promise<StoredFile> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const key = currentKey();
    const form = new FormData();
    form.append("file", file, file.name);
    request.open("POST", address("/files"));
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => onProgress?.(total ? loaded / total : 0);
    request.onerror = () => void whyNot(file).then(reject);
    request.onabort = () => reject(signal?.reason);
    request.onload = () => {
      const { status, responseText } = request;
      if (status === 201) return resolve(JSON.parse(responseText) as StoredFile);
      if (status === 401) keyRefused(key);
      void problemOf(new Response(responseText, { status })).then(reject);
    };
    underWay.add(request);
    window.addEventListener("beforeunload", hold);
    request.onloadend = () => {
      underWay.delete(request);
      if (underWay.size === 0) window.removeEventListener("beforeunload", hold);
    };
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/** Why the upload failed: a folder looks like a file until it is read. */
async function whyNot(file: File): Promise<Problem> {
  try {
    await file.slice(0, 1).arrayBuffer();
    return unreachable();
  } catch {
    return new Problem(400, { code: "unreadable" });
  }
}
