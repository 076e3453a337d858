import { Card } from "../../parts/Card";
import { useAction } from "../../server/action";
import { client } from "../../server/client";
import { useTexts } from "../../texts";
import { RequestForm, type WorkflowRequest } from "./RequestForm";

/** The next request to an ended workflow, which keeps its files and history. */
export function NextRound({ id }: { id: string }) {
  const { workflows: words } = useTexts();
  const go = useAction({
    mutationFn: (request: WorkflowRequest) => client.workflows.start(request, id),
    onSuccess: () => document.querySelector("main")?.scrollTo({ top: 0 }), // to its progress bar
  });
  return (
    <Card title={words.nextRound}>
      <RequestForm
        label={words.nextRequest}
        send={words.goOn}
        onSend={go.mutateAsync}
        pending={go.isPending}
        error={go.error}
      />
    </Card>
  );
}
