import { useCallback } from "react";
import { useTexts } from "../texts";
import { useToast } from "./Toast";

/** Copies a text to the clipboard and shows a note. */
export function useCopy(): (text: string) => Promise<void> {
  const say = useToast();
  const { parts } = useTexts();
  return useCallback(
    async (text) => {
      try {
        await navigator.clipboard.writeText(text);
        say(parts.copied);
      } catch {
        say(parts.notCopied, true); // not allowed, or a page without HTTPS
      }
    },
    [say, parts],
  );
}
