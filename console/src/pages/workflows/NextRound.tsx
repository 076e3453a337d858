import { Card } from "../../parts/Card";
import { useAction } from "../../server/action";
import { client } from "../../server/client";
import { useTexts } from "../../texts";
import { type Wish, WishForm } from "./WishForm";

/** Another wish to a workflow that is over: it knows what it did, and has its files. */
export function NextRound({ id }: { id: string }) {
  const { workflows: words } = useTexts();
  const go = useAction({
    mutationFn: (wish: Wish) => client.workflows.start(wish, id),
    onSuccess: () => document.querySelector("main")?.scrollTo({ top: 0 }), // where its progress is
  });
  return (
    <Card title={words.nextRound}>
      <WishForm
        label={words.nextWish}
        send={words.goOn}
        onSend={go.mutateAsync}
        pending={go.isPending}
        error={go.error}
      />
    </Card>
  );
}
