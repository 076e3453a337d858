import type { WorkflowHead } from "@stellwerk/client";
import { useQuery } from "@tanstack/react-query";
import { useTexts } from "../../texts";
import { ProgressBar } from "./ProgressBar";
import { logs, percentOf } from "./queries";
import { useRefetch } from "./useRefetch";

/** Progress of a running workflow, refetched when the list changes; ended ones need no request. */
export function RowProgress({ workflow }: { workflow: WorkflowHead }) {
  return workflow.status === "running" ? <Running workflow={workflow} /> : null;
}

function Running({ workflow: { id, name, lastActivity } }: { workflow: WorkflowHead }) {
  const { workflows: words } = useTexts();
  const query = useQuery(logs(id));
  useRefetch(query, lastActivity);
  return <ProgressBar label={words.progressOf(name)} percent={percentOf(query.data ?? [])} className="w-28" />;
}
