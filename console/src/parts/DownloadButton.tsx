import { useMutation } from "@tanstack/react-query";
import { useTexts } from "../texts";
import { Button } from "./Button";
import { errorText } from "./ErrorNote";
import { download, type FileRef } from "./files";
import { Icon } from "./Icon";
import { useToast } from "./Toast";

/** Downloads a file with the key. */
export function DownloadButton({ file }: { file: FileRef }) {
  const texts = useTexts();
  const say = useToast();
  const fetching = useMutation({
    mutationFn: () => download(file),
    onError: (error) => say(errorText(error, texts), true),
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
