import { useToast } from "../../parts/Toast";
import { wordsFor } from "../../parts/Trouble";
import { useAction } from "../../server/action";
import { answerAnew, freshKey } from "../../server/conversation";
import { useTexts } from "../../texts";

/** Lets the last message be answered anew. */
export function useAgain(sid: string) {
  const texts = useTexts();
  const say = useToast();
  const { mutate, isPending } = useAction({
    mutationFn: (once: string) => answerAnew(sid, once),
    onError: (error) => say(wordsFor(error, texts), true),
  });
  return { run: () => mutate(freshKey()), isPending };
}
