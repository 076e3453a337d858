import type { Session } from "@stellwerk/client";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { ErrorNote } from "../../parts/ErrorNote";
import { Icon } from "../../parts/Icon";
import { useAction } from "../../server/action";
import { client } from "../../server/client";
import { useTexts } from "../../texts";
import { useStop } from "../chat/StopButton";

export function StopButton({ id, session }: { id: string; session: Session }) {
  const { workflows: words } = useTexts();
  const stop = useStop(id, session);
  return (
    <Button look="danger" disabled={stop.isUnderWay} onClick={stop.run}>
      <Icon name="stop" size={16} /> {stop.isUnderWay ? words.stopping : words.stop}
    </Button>
  );
}

/** Asks for confirmation: a deletion cannot be undone. */
export function DeleteButton({ id }: { id: string }) {
  const { workflows: words } = useTexts();
  const [asking, setAsking] = useState(false);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const remove = useAction({
    mutationFn: () => client.workflows.delete(id),
    onSuccess: async () => {
      await navigate({ to: "/workflows" });
      queries.removeQueries({ queryKey: ["workflow", id] });
      await queries.invalidateQueries({ queryKey: ["workflows"] });
    },
  });
  return (
    <>
      <Button look="danger" onClick={() => setAsking(true)}>
        <Icon name="trash" size={16} /> {words.remove}
      </Button>
      <Dialog open={asking} onClose={() => setAsking(false)} title={words.removeTitle}>
        <div className="space-y-5">
          <p className="text-muted">{words.removeWhat}</p>
          {remove.error && <ErrorNote error={remove.error} />}
          <div className="flex justify-end gap-2">
            <Button data-autofocus onClick={() => setAsking(false)}>
              {words.keep}
            </Button>
            <Button look="danger" disabled={remove.isPending} onClick={() => remove.mutate()}>
              {words.removeNow}
            </Button>
          </div>
        </div>
      </Dialog>
    </>
  );
}
