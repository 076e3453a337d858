import type { Session, Withdrawn } from "@stellwerk/client";
import { useIsMutating } from "@tanstack/react-query";
import { Button } from "../../parts/Button";
import { errorText } from "../../parts/ErrorNote";
import { Icon } from "../../parts/Icon";
import { useToast } from "../../parts/Toast";
import { useAction } from "../../server/action";
import { stopRound } from "../../server/stopRound";
import { type Draft, giveBack } from "../../state/draft";
import { useTexts } from "../../texts";
import { queuedIn } from "./items";

const draftOf = ({ text, documents, input, config, context }: Withdrawn): Draft => ({
  text,
  files: documents.map(({ document_id, filename }) => ({ id: document_id, name: filename })),
  ...(input !== undefined || config || context ? { parameters: { input, config, context } } : {}),
});

export interface Stop {
  run: () => void;
  /** Requested here or elsewhere, and the run has not ended yet. */
  isUnderWay: boolean;
}

/**
 * Stops the current run, with retries while the server is unreachable. Queued messages return to the
 * input box.
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
    onError: (error) => say(errorText(error, texts), true),
  });
  // It continues while another page is open, and may still be in progress on return.
  const isUnderWay = useIsMutating({ mutationKey }) > 0 || session.stopping;
  return { run: () => !isUnderWay && mutate(session.round), isUnderWay };
}

/** Announces the stop to a focused reader, because the button disappears with the run. */
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
