import { errorText } from "../../parts/ErrorNote";
import { useToast } from "../../parts/Toast";
import { useAction } from "../../server/action";
import { answerAnew, freshKey } from "../../server/conversation";
import { useTexts } from "../../texts";

/** Regenerates the last answer. */
export function useRegenerate(sid: string) {
  const texts = useTexts();
  const say = useToast();
  const { mutate, isPending } = useAction({
    mutationFn: (once: string) => answerAnew(sid, once),
    onError: (error) => say(errorText(error, texts), true),
  });
  return { run: () => mutate(freshKey()), isPending };
}
