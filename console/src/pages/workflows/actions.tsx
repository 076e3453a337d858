import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { Icon } from "../../parts/Icon";
import { useToast } from "../../parts/Toast";
import { Trouble, wordsFor } from "../../parts/Trouble";
import { client } from "../../server/client";
import { useTexts } from "../../texts";

export function StopButton({ id, stopping }: { id: string; stopping: boolean }) {
  const texts = useTexts();
  const { workflows: words } = texts;
  const say = useToast();
  const stop = useMutation({
    mutationFn: () => client.workflows.stop(id),
    onError: (error) => say(wordsFor(error, texts), true),
  });
  const under = stopping || stop.isPending;
  return (
    <Button look="danger" disabled={under} onClick={() => stop.mutate()}>
      <Icon name="stop" size={16} /> {under ? words.stopping : words.stop}
    </Button>
  );
}

/** Asks before it does it: nobody can bring it back. */
export function DeleteButton({ id }: { id: string }) {
  const { workflows: words } = useTexts();
  const [asking, setAsking] = useState(false);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const remove = useMutation({
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
          {remove.error && <Trouble error={remove.error} />}
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
