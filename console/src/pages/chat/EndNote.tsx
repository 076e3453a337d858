import type { Run } from "@stellwerk/client";
import { Button } from "../../parts/Button";
import { Icon } from "../../parts/Icon";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import { useRegenerate } from "./regenerate";

interface Props {
  sid: string;
  run: Run;
  /** It is the last row. */
  canRepeat: boolean;
}

/** States that a run was stopped or failed, with the reason and a button to regenerate. */
export function EndNote({ sid, run, canRepeat }: Props) {
  const { chat } = useTexts();
  const again = useRegenerate(sid);
  const mayWrite = useScope("run");
  const repeat = canRepeat && mayWrite && (
    <Button look="quiet" className="h-7 px-2" disabled={again.isPending} onClick={again.run}>
      <Icon name="again" size={15} /> {chat.again}
    </Button>
  );
  if (run.status === "stopped")
    return (
      <div className="flex flex-wrap items-center gap-2 text-sm text-muted">
        <Icon name="stop" size={16} />
        <p>{chat.stopped}</p>
        {run.reason && <p className="break-words">· {run.reason}</p>}
        {repeat}
      </div>
    );
  return (
    <div className="flex flex-wrap gap-3 rounded-xl bg-bad-soft px-4 py-3 text-bad">
      <span className="mt-0.5">
        <Icon name="alert" />
      </span>
      <div className="min-w-0 flex-1 basis-48">
        <p className="font-medium">{chat.failed}</p>
        {run.reason && <p className="break-words">{run.reason}</p>}
        {run.code && <p className="mt-0.5 font-mono text-xs">{run.code}</p>}
      </div>
      {repeat && <div className="ml-auto">{repeat}</div>}
    </div>
  );
}
