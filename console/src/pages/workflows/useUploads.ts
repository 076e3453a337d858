import { useEffect, useReducer, useRef } from "react";
import { upload } from "../../server/upload";
import { type Sending, uploads } from "./uploads";

/** Uploads files as soon as they are chosen. */
export function useUploads() {
  const [files, step] = useReducer(uploads, []);
  const sending = useRef(new Map<number, AbortController>());
  const next = useRef(0);
  useEffect(() => {
    const all = sending.current;
    return () => {
      for (const one of all.values()) one.abort();
    };
  }, []);
  const send = async (file: File, key: number) => {
    const ending = new AbortController();
    sending.current.set(key, ending);
    try {
      const stored = await upload(file, {
        onProgress: (part) => step({ what: "sent", key, part }),
        signal: ending.signal,
      });
      step({ what: "stored", key, stored });
    } catch (why) {
      if (!ending.signal.aborted) step({ what: "refused", key, why });
    } finally {
      sending.current.delete(key);
    }
  };
  return {
    files,
    add: (chosen: readonly File[]) => {
      const keyed = chosen.map((file) => ({ file, key: next.current++ }));
      const added = keyed.map(({ file, key }): Sending => ({ key, name: file.name, size: file.size, part: 0 }));
      step({ what: "added", files: added });
      for (const { file, key } of keyed) void send(file, key);
    },
    remove: (key: number) => {
      sending.current.get(key)?.abort();
      step({ what: "removed", key });
    },
    clear: () => step({ what: "cleared" }),
  };
}
