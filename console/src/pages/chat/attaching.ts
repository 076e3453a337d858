import { useEffect, useRef, useState } from "react";
import { errorText } from "../../parts/ErrorNote";
import { useToast } from "../../parts/Toast";
import type { Draft } from "../../state/draft";
import { type Upload, uploadFor, useUploads } from "../../state/uploads";
import { useTexts } from "../../texts";

export interface Attaching {
  /** Files are being dragged over the page. */
  isOver: boolean;
  uploads: readonly Upload[];
  take: (files: Iterable<File>) => void;
  leaveOut: (id: string) => void;
}

interface Wishes {
  sid: string;
  draft: Draft;
  setDraft: (draft: Draft) => void;
  /** Whether a message can be sent now. */
  isOpen: boolean;
}

/** Files for the next message, dropped on the page, pasted or chosen; uploaded at once. */
export function useAttaching({ sid, draft, setDraft, isOpen }: Wishes): Attaching {
  const texts = useTexts();
  const say = useToast();
  const uploads = useUploads(sid);
  const takeOne = (file: File) =>
    uploadFor(sid, file).catch((error: unknown) => say(`${file.name}: ${errorText(error, texts)}`, true));
  const take = (files: Iterable<File>) => {
    for (const file of files) void takeOne(file);
  };
  const isOver = useDrop(take, isOpen);
  const leaveOut = (id: string) => setDraft({ ...draft, files: draft.files.filter((file) => file.id !== id) });
  return { isOver, uploads, take, leaveOut };
}

function useDrop(take: (files: Iterable<File>) => void, isOpen: boolean): boolean {
  const [isOver, setOver] = useState(false);
  const current = useRef(take);
  current.current = take;
  useEffect(() => {
    if (!isOpen) return;
    const over = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(true);
    };
    const left = (event: DragEvent) => event.relatedTarget === null && setOver(false);
    const dropped = (event: DragEvent) => {
      setOver(false);
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      current.current(event.dataTransfer.files);
    };
    document.addEventListener("dragover", over);
    document.addEventListener("dragleave", left);
    document.addEventListener("drop", dropped);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("dragleave", left);
      document.removeEventListener("drop", dropped);
    };
  }, [isOpen]);
  return isOver;
}
