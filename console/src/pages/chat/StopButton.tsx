import type { Session } from "@stellwerk/client";
import { useMutation } from "@tanstack/react-query";
import { Button } from "../../parts/Button";
import { Icon } from "../../parts/Icon";
import { useToast } from "../../parts/Toast";
import { wordsFor } from "../../parts/Trouble";
import { stopRun } from "../../server/conversation";
import { useTexts } from "../../texts";

export interface Stop {
  run: () => void;
  /** Asked for, here or elsewhere, and the run has not ended yet. */
  isUnderWay: boolean;
}

export function useStop(sid: string, session: Session): Stop {
  const texts = useTexts();
  const say = useToast();
  const { mutate, isPending } = useMutation({
    mutationFn: () => stopRun(sid),
    onError: (error) => say(wordsFor(error, texts), true),
  });
  const isUnderWay = isPending || session.stopping;
  return { run: () => !isUnderWay && mutate(), isUnderWay };
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
