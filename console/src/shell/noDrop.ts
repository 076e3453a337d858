import { useEffect } from "react";

/** A file that is dropped where nothing takes it stays where it was: the browser would leave the console and show it. */
export function useNoDrop(): void {
  useEffect(() => {
    window.addEventListener("dragover", refuse);
    window.addEventListener("drop", refuse);
    return () => {
      window.removeEventListener("dragover", refuse);
      window.removeEventListener("drop", refuse);
    };
  }, []);
}

/** What is inside of the page has had it first. */
function refuse(event: DragEvent): void {
  if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "none";
}
