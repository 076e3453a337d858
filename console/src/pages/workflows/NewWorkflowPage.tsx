import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { Card } from "../../parts/Card";
import { Choice } from "../../parts/Field";
import { MayNot } from "../../parts/MayNot";
import { Page } from "../../parts/Page";
import { useAction } from "../../server/action";
import { client } from "../../server/client";
import { systems } from "../../server/queries";
import { useMay } from "../../state/may";
import { useTexts } from "../../texts";
import { type Wish, WishForm } from "./WishForm";

/** A wish and files, and it begins. */
export function NewWorkflowPage() {
  const { workflows: words } = useTexts();
  const mayRun = useMay("run");
  const [system, setSystem] = useState("");
  const known = useQuery(systems).data ?? [];
  const navigate = useNavigate();
  const queries = useQueryClient();
  const start = useAction({
    mutationFn: (wish: Wish) => client.workflows.start(system ? { ...wish, agentSystemId: system } : wish),
    onSuccess: async ({ id }) => {
      void queries.invalidateQueries({ queryKey: ["workflows"] });
      await navigate({ to: "/workflows/$id", params: { id } });
    },
  });
  return (
    <Page title={words.newTitle} lead={words.newLead}>
      {mayRun ? (
        <Card>
          <WishForm
            label={words.wish}
            hint={words.wishHint}
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
          </WishForm>
        </Card>
      ) : (
        <MayNot scope="run" />
      )}
    </Page>
  );
}
