import type { Session, Withdrawn } from "@stellwerk/client";
import { useIsMutating } from "@tanstack/react-query";
import { Button } from "../../parts/Button";
import { Icon } from "../../parts/Icon";
import { useToast } from "../../parts/Toast";
import { wordsFor } from "../../parts/Trouble";
import { useAction } from "../../server/action";
import { stopRound } from "../../server/stopping";
import { type Draft, giveBack } from "../../state/draft";
import { useTexts } from "../../texts";
import { queuedIn } from "./items";

const draftOf = ({ text, documents }: Withdrawn): Draft => ({
  text,
  files: documents.map(({ document_id, filename }) => ({ id: document_id, name: filename })),
});

export interface Stop {
  run: () => void;
  /** Asked for, here or elsewhere, and the run has not ended yet. */
  isUnderWay: boolean;
}

/**
 * Stops the run that is under way; while the server is away it is tried again. Messages that waited for their turn come
 * back into the box.
 */
export function useStop(sid: string, session: Session): Stop {
  const texts = useTexts();
  const say = useToast();
  const mutationKey = ["stop", sid];
  const { mutate } = useAction({
    mutationKey,
    mutationFn: async (round: number) => {
      const queued = queuedIn(session);
      const { isStopped, withdrawn } = await stopRound(sid, round);
      const waited = isStopped ? (withdrawn?.map(draftOf) ?? queued) : [];
      giveBack(sid, waited);
      return { isStopped, isGivenBack: waited.length > 0 };
    },
    onSuccess: ({ isStopped, isGivenBack }) => {
      if (!isStopped) say(texts.chat.notStopped, true);
      else if (isGivenBack) say(texts.chat.givenBack);
    },
    onError: (error) => say(wordsFor(error, texts), true),
  });
  // It goes on while another page is open, and may be found under way when one comes back.
  const isUnderWay = useIsMutating({ mutationKey }) > 0 || session.stopping;
  return { run: () => !isUnderWay && mutate(session.round), isUnderWay };
}

/** Whoever has the focus on it is told, as the button goes away with the run. */
export function StopButton({ stop, onStop }: { stop: Stop; onStop: () => void }) {
  const { chat } = useTexts();
  const press = () => {
    stop.run();
    onStop();
  };
  return (
    <Button className="rounded-xl" disabled={stop.isUnderWay} onClick={press} title={`${chat.stop} (Esc)`}>
      <Icon name="stop" size={16} />
      {stop.isUnderWay ? chat.stopping : chat.stop}
    </Button>
  );
}
