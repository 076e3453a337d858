import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Card } from "../../parts/Card";
import { Choice } from "../../parts/Field";
import { NotAllowed } from "../../parts/NotAllowed";
import { Page } from "../../parts/Page";
import { useAction } from "../../server/action";
import { client } from "../../server/client";
import { systems } from "../../server/queries";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import { RequestForm, type WorkflowRequest } from "./RequestForm";

/** A request and files that start a workflow. */
export function NewWorkflowPage() {
  const { workflows: words } = useTexts();
  const mayRun = useScope("run");
  const [system, setSystem] = useState("");
  const known = useQuery(systems).data ?? [];
  const navigate = useNavigate();
  const queries = useQueryClient();
  const start = useAction({
    mutationFn: (request: WorkflowRequest) =>
      client.workflows.start(system ? { ...request, agentSystemId: system } : request),
    onSuccess: async ({ id }) => {
      void queries.invalidateQueries({ queryKey: ["workflows"] });
      await navigate({ to: "/workflows/$id", params: { id } });
    },
  });
  return (
    <Page title={words.newTitle} lead={words.newLead}>
      {mayRun ? (
        <Card>
          <RequestForm
            label={words.request}
            hint={words.requestHint}
            send={words.start}
            onSend={start.mutateAsync}
            pending={start.isPending}
            error={start.error}
          >
            {known.length > 1 && (
              <Choice
                label={words.system}
                value={system}
                onChange={setSystem}
                options={[{ value: "", label: words.anySystem }, ...known.map(({ id }) => ({ value: id, label: id }))]}
              />
            )}
          </RequestForm>
        </Card>
      ) : (
        <NotAllowed scope="run" />
      )}
    </Page>
  );
}
