import { useMutation } from "@tanstack/react-query";
import { askBlob } from "../server/ask";
import { useTexts } from "../texts";
import { Button } from "./Button";
import { type FileRef, save } from "./files";
import { Icon } from "./Icon";
import { useToast } from "./Toast";
import { wordsFor } from "./Trouble";

/** Fetches a file with the key, and gives it to the browser. */
export function DownloadButton({ file }: { file: FileRef }) {
  const texts = useTexts();
  const say = useToast();
  const fetching = useMutation({
    mutationFn: () => askBlob(file.path),
    onSuccess: (blob) => save(blob, file.name),
    onError: (error) => say(wordsFor(error, texts), true),
  });
  return (
    <Button
      look="quiet"
      square
      aria-label={texts.parts.download(file.name)}
      title={texts.parts.download(file.name)}
      disabled={fetching.isPending}
      onClick={() => fetching.mutate()}
    >
      <Icon name="download" />
    </Button>
  );
}
