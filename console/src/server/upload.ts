import type { StoredFile } from "@stellwerk/client";
import { address, headers, Problem, problemOf } from "./ask";
import { currentKey, keyRefused } from "./key";

/** Sends a file, and tells how much of it has gone, from 0 to 1; which `fetch` cannot do. */
export function upload(file: File, onProgress: (part: number) => void, signal: AbortSignal): Promise<StoredFile> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const key = currentKey();
    const form = new FormData();
    form.append("file", file, file.name);
    request.open("POST", address("/files"));
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
    request.onerror = () => reject(new Problem(0, "unreachable", ""));
    request.onabort = () => reject(signal.reason);
    request.onload = () => {
      if (request.status === 201) return resolve(JSON.parse(request.responseText) as StoredFile);
      if (request.status === 401) keyRefused(key);
      reject(problemOf(request.status, request.responseText));
    };
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
