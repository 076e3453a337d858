import { useEffect, useRef, useState } from "react";
import { useToast } from "../../parts/Toast";
import { wordsFor } from "../../parts/Trouble";
import { freshKey, upload } from "../../server/conversation";
import type { Attached, Draft } from "../../state/draft";
import { useTexts } from "../../texts";

export interface Attaching {
  /** Files are held over the page. */
  isOver: boolean;
  uploads: readonly { key: string; name: string }[];
  take: (files: Iterable<File>) => void;
  leaveOut: (id: string) => void;
}

/** Files for the next message, dropped anywhere on the page, pasted or chosen; uploaded at once. */
export function useAttaching(draft: Draft, setDraft: (draft: Draft) => void): Attaching {
  const texts = useTexts();
  const say = useToast();
  const [uploads, setUploads] = useState<Attaching["uploads"]>([]);
  const current = useRef(draft);
  current.current = draft;
  const keep = (file: Attached) => {
    const others = current.current.files.filter(({ id }) => id !== file.id);
    current.current = { ...current.current, files: [...others, file] };
    setDraft(current.current);
  };
  const takeOne = async (file: File) => {
    const key = freshKey();
    setUploads((known) => [...known, { key, name: file.name }]);
    try {
      const { id, filename } = await upload(file);
      keep({ id, name: filename });
    } catch (error) {
      say(`${file.name}: ${wordsFor(error, texts)}`, true);
    } finally {
      setUploads((known) => known.filter((one) => one.key !== key));
    }
  };
  const take = (files: Iterable<File>) => {
    for (const file of files) void takeOne(file);
  };
  const isOver = useDrop(take);
  const leaveOut = (id: string) => setDraft({ ...draft, files: draft.files.filter((file) => file.id !== id) });
  return { isOver, uploads, take, leaveOut };
}

function useDrop(take: (files: Iterable<File>) => void): boolean {
  const [isOver, setOver] = useState(false);
  const current = useRef(take);
  current.current = take;
  useEffect(() => {
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
  }, []);
  return isOver;
}
